"""Fixtures of the tests of jobs with several ranks."""

import pytest

from helpers.torch_snapshots import roomy_job, scattered_job


@pytest.fixture
def folder(tmp_path):
    """A folder with snapshots by name, made of jobs."""

    def make(jobs, name="run"):
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        for file, job in jobs.items():
            job.save(path / file)
        return path

    return make


@pytest.fixture
def four_ranks(folder):
    """A folder with four ranks, of which rank 2 runs out of memory on 1 GiB."""
    sizes = {0: 860, 1: 880, 3: 900}
    jobs = {f"rank_{rank}.pickle": roomy_job(mib) for rank, mib in sizes.items()}
    return folder(jobs | {"rank_2.pickle": scattered_job()})
