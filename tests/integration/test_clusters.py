"""Sweeps on real clusters of Dask and Ray, each with two workers."""

import json
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

import memlake
from helpers.clusters import (
    WITH_ANOTHER_BUILD,
    WITH_ANOTHER_MEMLAKE,
    WITHOUT_MEMLAKE,
    command_of,
    dask_cluster,
    free_port,
    ray_cluster,
)
from helpers.sweeps import write_ranks
from memlake.cli import main
from memlake.errors import ConfigError, SweepError

NUM_RANKS = 12
SIZES = ["224MiB", "256MiB"]
POLICIES = ["lake", "caching", "stitch"]
NUM_ROWS = 1500
"""So many that a task takes a while: one is at work when another one is done."""

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed: no distributed")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = write_ranks(tmp_path_factory.mktemp("files") / "run", NUM_RANKS, NUM_ROWS)
    (folder / "rank3.npz").write_bytes(b"PK\x03\x04nonsense")
    return folder


@pytest.fixture(scope="module")
def local(ranks):
    return memlake.sweep(ranks, SIZES, POLICIES)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        cluster.add_worker()
        cluster.add_worker()
        yield cluster


@pytest.fixture(scope="module")
def ray():
    with pytest.MonkeyPatch.context() as patch, ray_cluster(2) as cluster:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        yield cluster


def everything(found):
    """What people and programs see of a sweep, to the byte."""
    return found.to_text(), json.dumps(found.to_json())


def keys_in(results):
    lines = [json.loads(line) for line in results.read_text().splitlines()[1:]]
    return [line["key"] for line in lines if "key" in line]


def sweep_while(engine, address, ranks, results, act):
    """A sweep during which something happens half-way; the number of results at that moment."""
    moments = []

    def look(done, total):
        if not moments and done >= total // 2:
            moments.append(done)
            act()

    found = memlake.sweep(ranks, SIZES, POLICIES, engine=engine, address=address, results=results, progress=look)
    assert 0 < moments[0] < NUM_RANKS * 6
    return found


def assert_nothing_is_lost_or_twice(results):
    assert len(keys_in(results)) == len(set(keys_in(results))) == (NUM_RANKS - 1) * 6


@needs_dask
def test_workers_of_dask_without_the_files_get_their_content(dask, ranks, local, monkeypatch):
    monkeypatch.chdir(ranks.parent)
    # The name means another folder in each process: here that of the files, in a worker its own.
    found = memlake.sweep("/proc/self/cwd/run", SIZES, POLICIES, engine="dask", address=dask.address)
    assert [file.rows for file in found] == [file.rows for file in local]
    assert [one.reason.count("/proc/self/cwd/run/rank3.npz") for one in found.unreadable] == [1]


@needs_dask
def test_a_worker_of_dask_is_killed_and_the_table_is_the_local_one_to_the_byte(dask, ranks, local, tmp_path):
    results = tmp_path / "results.jsonl"
    found = sweep_while("dask", dask.address, ranks, results, dask.workers[0].kill)
    assert dask.workers[0].wait() == -signal.SIGKILL
    assert everything(found) == everything(local)
    assert_nothing_is_lost_or_twice(results)


@needs_dask
@pytest.mark.parametrize(
    ("first", "has", "hint"),
    [
        pytest.param(WITHOUT_MEMLAKE, "has no memlake", f"install memlake {memlake.__version__} in the", id="none"),
        pytest.param(
            WITH_ANOTHER_MEMLAKE,
            f"has memlake 0.0.1, and this one is {memlake.__version__}",
            f"install memlake {memlake.__version__} in the",
            id="another version",
        ),
        pytest.param(
            WITH_ANOTHER_BUILD,
            f"has another build of memlake {memlake.__version__}, or other costs of driver calls (MEMLAKE_COSTS)",
            "install the same wheel in the",
            id="another build",
        ),
    ],
)
def test_a_worker_of_dask_without_this_memlake_is_named(dask, ranks, tmp_path, capsys, first, has, hint):
    for worker in dask.workers:
        worker.kill()
        worker.wait()
    dask.add_worker(first)
    output = tmp_path / "table.csv"
    cluster = ["--engine", "dask", "--address", dask.address]
    more = ["--results", str(tmp_path / "results.jsonl"), "--output", str(output)]
    assert main(["sweep", str(ranks), "--capacities", "1GiB", *cluster, *more]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"memlake: error: a worker of the Dask cluster {has} (host ")
    assert f"; hint: {hint} environment of every worker" in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not output.exists()


@needs_dask
def test_a_scheduler_that_is_killed_ends_the_sweep_with_a_sentence_and_the_sweep_goes_on_later(
    dask, ranks, local, tmp_path
):
    for worker in dask.workers:
        worker.kill()
        worker.wait()
    dask.add_worker()
    results = tmp_path / "results.jsonl"
    with pytest.raises(SweepError, match=r"the Dask cluster .*; hint: start it again and run the same sweep"):
        sweep_while("dask", dask.address, ranks, results, dask.scheduler.kill)
    half = keys_in(results)
    assert 0 < len(half) < (NUM_RANKS - 1) * 6
    assert everything(memlake.sweep(ranks, SIZES, POLICIES, results=results)) == everything(local)
    assert keys_in(results)[: len(half)] == half
    assert_nothing_is_lost_or_twice(results)


@needs_ray
def test_a_worker_of_ray_is_killed_and_the_table_is_the_local_one_to_the_byte(ray, ranks, local, tmp_path):
    results = tmp_path / "results.jsonl"
    killed = []

    def kill_one():
        killed.append(ray.workers()[0])
        os.kill(killed[0], signal.SIGKILL)

    found = sweep_while("ray", ray.address, ranks, results, kill_one)
    assert len(killed) == 1
    assert everything(found) == everything(local)
    assert_nothing_is_lost_or_twice(results)


@needs_ray
def test_workers_of_ray_without_the_files_get_their_content(ray, ranks, local, monkeypatch):
    monkeypatch.chdir(ranks.parent)
    found = memlake.sweep("/proc/self/cwd/run", SIZES, POLICIES, engine="ray", address=ray.address)
    assert [file.rows for file in found] == [file.rows for file in local]


@needs_ray
def test_the_client_of_a_cluster_that_ends_is_a_sentence(ray, ranks, tmp_path):
    results = tmp_path / "results.jsonl"

    def kill_gateway():
        (gateway,) = [pid for pid in children() if b"sweeping.gateway" in command_of(pid)]
        os.kill(gateway, signal.SIGKILL)

    with pytest.raises(SweepError, match=r"the Ray cluster .* is gone.*; hint: start it again"):
        sweep_while("ray", ray.address, ranks, results, kill_gateway)
    assert keys_in(results)


def children():
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        pytest.param("dask", "no Dask scheduler answers at tcp://127.0.0.1:", marks=needs_dask, id="dask"),
        pytest.param("ray", "no Ray cluster answers at tcp://127.0.0.1:", marks=needs_ray, id="ray"),
    ],
)
def test_a_cluster_that_does_not_answer_is_a_sentence(engine, says, ranks, tmp_path, capsys):
    output = tmp_path / "table.csv"
    address = f"tcp://127.0.0.1:{free_port()}"
    more = ["--results", str(tmp_path / "results.jsonl"), "--output", str(output)]
    assert main(["sweep", str(ranks), "--capacities", "1GiB", "--engine", engine, "--address", address, *more]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"memlake: error: {says}")
    assert "Connection refused); hint: check the address" in said.err
    assert (said.out, output.exists()) == ("", False)


def test_an_engine_whose_client_is_not_installed_is_refused(ranks, monkeypatch):
    monkeypatch.setattr("memlake.sweeping.cluster_engine.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"distributed, which is not installed; hint: pip install 'memlake\[dask"):
        memlake.sweep(ranks, SIZES, engine="dask", address="tcp://127.0.0.1:1")
