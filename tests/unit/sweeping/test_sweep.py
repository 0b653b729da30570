"""Sweeps on the cores of this machine."""

import json
import os
import signal

import pytest

import memlake
from helpers.processes import assert_ends_well, child_processes
from helpers.sweeps import random_trace, write_ranks
from helpers.torch_snapshots import late_job, roomy_job, scattered_job, state_job
from memlake.errors import ConfigError, SweepError, TraceError
from memlake.jobs.processes import Workers
from memlake.sweeping import local_engine
from memlake.trace import Op

SIZES = ["224MiB", "256MiB"]


def lines_of(path):
    """The keys in a results file."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [line["key"] for line in lines if "key" in line]


def test_every_figure_is_that_of_a_replay(four):
    found = memlake.sweep(four, SIZES, ["lake", "caching", "max_split_size_mb:32"])
    assert [file.label for file in found] == ["0", "1", "2", "3"]
    assert len(found.settings) == 6
    for file in found:
        trace = memlake.Trace.load(file.file.path)
        for setting, row in zip(found.settings, file.rows, strict=True):
            result = memlake.replay(trace, setting.options, setting.capacity)
            figures = result.figures() | {"rows": result.num_rows}
            assert {key: figures[key] for key in row} == row


def test_outcomes_are_those_of_a_comparison_also_where_the_file_cannot_decide(tmp_path):
    for rank, job in enumerate((roomy_job(860), scattered_job(), state_job(), late_job())):
        job.save(tmp_path / f"rank{rank}.pickle")
    policies = ["lake", "caching"]
    found = memlake.sweep(tmp_path, ["900MiB", "1GiB", "2GiB"], policies)
    outcomes = set()
    for file in found:
        for setting, row in zip(found.settings, file.rows, strict=True):
            compared = memlake.compare(file.file.path, setting.capacity, policies)[setting.options.label]
            assert (row["outcome"], row["sentence"]) == (compared.outcome, compared.sentence)
            outcomes.add(row["outcome"])
    assert outcomes == {"ok", "oom", "unknown"}


def test_the_setting_for_all_is_the_smallest_device_on_which_a_usable_policy_serves_every_file(four):
    found = memlake.sweep(four, ["200MiB", "240MiB", "1GiB"])
    fits = [one for one in found.over_files if all(row["outcome"] == "ok" for row in one.rows.values())]
    assert tuple(fits) == found.serving
    usable = [one for one in fits if one.setting.options.name not in ("stitch", "direct")]
    best = found.best
    assert best.setting.capacity == min(one.setting.capacity for one in usable)
    same_size = [one for one in usable if one.setting.capacity == best.setting.capacity]
    assert best.driver_ms == min(one.driver_ms for one in same_size)
    assert found.outcome == "ok"
    assert f"{best.setting.title} serves all 4 ranks" in found.sentence


def test_the_worst_file_fits_under_the_fewest_settings(four):
    big = memlake.Trace([Op.ALLOCATE, Op.ALLOCATE], [0, 1], [300 * 2**20, 2**20])
    big.save(four / "rank4.npz")
    found = memlake.sweep(four, ["256MiB", "1GiB"], "lake")
    assert found.worst.label == "4"
    assert found.worst.num_fitting == 1
    assert "The worst is rank 4: it fits under 1 of 2 settings and has 301 MiB live" in found.sentence


def test_without_a_setting_for_all_the_nearest_is_named(four):
    found = memlake.sweep(four, ["64MiB", "128MiB"], ["lake", "direct"])
    assert (found.best, found.outcome) == (None, "oom")
    assert "None of the 4 settings serves all 4 ranks. The nearest is " in found.sentence


def test_nothing_is_computed_twice(four, tmp_path):
    results = tmp_path / "results.jsonl"
    first = memlake.sweep(four, SIZES[:1], "lake", results=results)
    keys = lines_of(results)
    assert len(keys) == 4
    seen = []
    again = memlake.sweep(
        four, SIZES, ["lake", "caching"], results=results, progress=lambda *numbers: seen.append(numbers)
    )
    assert lines_of(results)[:4] == keys
    assert len(set(lines_of(results))) == len(lines_of(results)) == 16
    assert seen[0] == (4, 16)
    assert seen[-1] == (16, 16)
    assert [file.rows[:1] for file in again] == [file.rows for file in first]
    size = results.stat().st_size
    assert memlake.sweep(four, SIZES, ["lake", "caching"], results=results) == again
    assert results.stat().st_size == size


def test_equal_files_are_replayed_once_and_each_is_a_line(four, tmp_path):
    (four / "rank4.npz").write_bytes((four / "rank0.npz").read_bytes())
    results = tmp_path / "results.jsonl"
    found = memlake.sweep(four, SIZES, "lake", results=results)
    assert len(lines_of(results)) == 8
    assert [file.label for file in found] == ["0", "1", "2", "3", "4"]
    assert found.files[4].rows == found.files[0].rows


def test_a_file_with_another_content_is_another_file(four, tmp_path):
    results = tmp_path / "results.jsonl"
    before = memlake.sweep(four, SIZES, "lake", results=results)
    random_trace(99).save(four / "rank0.npz")
    after = memlake.sweep(four, SIZES, "lake", results=results)
    assert len(lines_of(results)) == 10
    assert after.files[0] != before.files[0]
    assert after.files[1:] == before.files[1:]


def test_every_argument_that_changes_a_figure_is_a_part_of_the_key(four, tmp_path):
    results = tmp_path / "results.jsonl"
    for more in ({}, {"events": "recorded"}, {"limit": "90%"}, {"limit": "95%"}, {"events": "lag:3"}):
        memlake.sweep(four / "rank0.npz", SIZES[:1], "lake", results=results, **more)
    assert len(set(lines_of(results))) == 5


def test_an_interrupted_sweep_goes_on_and_gives_the_same(four, tmp_path):
    results = tmp_path / "results.jsonl"

    def interrupt(done, total):
        if done >= total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memlake.sweep(four, SIZES, results=results, progress=interrupt)
    half = lines_of(results)
    assert 0 < len(half) < 40
    found = memlake.sweep(four, SIZES, results=results)
    assert lines_of(results)[: len(half)] == half
    assert len(set(lines_of(results))) == len(lines_of(results)) == 40
    assert found == memlake.sweep(four, SIZES)


def test_a_sweep_that_was_killed_goes_on(four, tmp_path):
    results = tmp_path / "results.jsonl"
    child = os.fork()
    if not child:
        try:
            memlake.sweep(four, SIZES, results=results, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    half = lines_of(results)
    assert half
    assert memlake.sweep(four, SIZES, results=results) == memlake.sweep(four, SIZES)
    assert lines_of(results)[: len(half)] == half
    assert len(set(lines_of(results))) == len(lines_of(results)) == 40


def test_a_worker_that_is_killed_loses_nothing(tmp_path, monkeypatch):
    folder = write_ranks(tmp_path / "run", 6)
    expected = memlake.sweep(folder, SIZES)
    made = []

    class Kept(Workers):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(local_engine, "Workers", Kept)
    killed = []

    def kill_one(done, total):
        if not killed and done >= total // 2:
            killed.append(made[0]._all[0])
            killed[0].kill()

    assert memlake.sweep(folder, SIZES, progress=kill_one) == expected
    assert killed[0].returncode == -signal.SIGKILL


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_answered(four):
    (four / "rank1.npz").write_bytes(b"PK\x03\x04nonsense")
    found = memlake.sweep(four, SIZES, "lake")
    assert [file.label for file in found] == ["0", "2", "3"]
    (bad,) = found.unreadable
    assert bad.file.label == "1"
    assert str(four / "rank1.npz") in bad.reason


def test_files_of_which_none_can_be_read_are_an_error(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}.pickle").write_bytes(b"nonsense")
    with pytest.raises(TraceError, match=r"rank0\.pickle"):
        memlake.sweep(tmp_path, SIZES)


def test_one_file_is_replayed_by_all_workers_and_gives_the_same(four):
    found = memlake.sweep(four / "rank2.npz", SIZES)
    assert found.files[0].rows == memlake.sweep(four, SIZES).files[2].rows
    assert found.title == "1 rank"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacities": []}, "a sweep has no devices; hint: name their sizes"),
        ({"capacities": None}, "a sweep has no devices; hint: name their sizes"),
        ({"capacities": "80 bananas"}, "80 bananas"),
        ({"capacities": "1KiB"}, "capacity must be between 2 MiB and 16 TiB"),
        ({"policies": []}, "policies is empty"),
        ({"policies": "pond"}, "pond"),
        ({"events": "never"}, "never"),
        ({"limit": "200%"}, "more than the whole"),
        ({"reserve": "1GiB"}, "reserve"),
        ({"engine": "slurm"}, "engine must be one of local, dask, ray"),
        ({"address": "tcp://host:1"}, "the local engine has no address"),
        ({"engine": "dask"}, "needs the address of its scheduler; hint: "),
        ({"engine": "dask", "address": ""}, "address must be the address of a cluster"),
        ({"engine": "ray", "address": "a\nb"}, "address must be the address of a cluster"),
        ({"capacities": range(2**21, 2**21 + 5000), "policies": "lake"}, "these are 5000 settings; hint: "),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(four, tmp_path, arguments, message):
    results = tmp_path / "results.jsonl"
    with pytest.raises(ConfigError, match=message):
        memlake.sweep(four, **{"capacities": "1GiB"} | arguments, results=results)
    assert not results.exists()


def test_a_damaged_results_file_is_an_error_and_is_left_as_it_is(four, tmp_path):
    results = tmp_path / "results.jsonl"
    memlake.sweep(four, SIZES, "lake", results=results)
    damaged = results.read_bytes().replace(b'"policy": "lake"', b'"policy": "leak"', 1)
    results.write_bytes(damaged)
    with pytest.raises(SweepError, match="is damaged: line 3 of 10"):
        memlake.sweep(four, SIZES, "lake", results=results)
    assert results.read_bytes() == damaged


def test_a_sweep_leaves_no_process_behind(four):
    before = child_processes()
    memlake.sweep(four, SIZES, "lake")
    assert child_processes() <= before


def test_a_script_needs_no_guard_and_ends_without_a_word(four):
    text = assert_ends_well(f"import memlake; print(memlake.sweep({str(four)!r}, '1GiB').outcome)")
    assert text.split() == ["ok"]


def test_printing_it_shows_the_table_of_the_command(four):
    text = memlake.sweep(four, SIZES, ["lake", "direct"]).to_text()
    assert "4 ranks, 4 settings" in text
    assert "device 224 MiB" in text
    assert "policy" in text
    assert "The worst is rank" in " ".join(text.split())
