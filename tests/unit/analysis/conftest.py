"""Fixtures of the tests of analyses."""

import pytest


@pytest.fixture
def file_of(tmp_path):
    """Writes the snapshot of a job to a file."""
    return lambda job, **options: job.save(tmp_path / "snapshot.pickle", **options)
