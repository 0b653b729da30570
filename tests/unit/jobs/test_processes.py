"""Worker processes."""

import os
import signal
from pathlib import Path

import pytest

from helpers.processes import assert_ends_well, child_processes
from helpers.torch_snapshots import scattered_job
from memlake.errors import MemlakeError
from memlake.jobs.asking import Question, RankAnswer, answer_of
from memlake.jobs.processes import Workers, num_workers


@pytest.fixture
def paths(tmp_path):
    """Three files of which the second is no snapshot."""
    found = [tmp_path / f"rank{rank}.pickle" for rank in range(3)]
    for path in found:
        scattered_job().save(path)
    found[1].write_bytes(b"\x80\x04nonsense")
    return [str(path) for path in found]


def ask_all(paths, question, progress=None):
    with Workers() as workers:
        return workers.ask_all(paths, question, progress)


def test_answers_come_in_the_order_of_the_files_and_equal_those_of_this_process(paths):
    question = Question("compare", None, {"capacity": "1GiB"})
    first, bad, last = ask_all(paths, question)
    assert isinstance(bad, MemlakeError)
    assert "rank1.pickle" in str(bad)
    assert first == last == answer_of(paths[0], question)
    assert isinstance(first, RankAnswer)


def test_progress_counts_files(paths):
    seen = []
    ask_all(paths, Question("overview"), lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


class Deadly(str):
    """A path that ends the process that receives it, as the kernel does when memory is short."""

    def __reduce__(self):
        return os.abort, ()


def test_the_death_of_a_worker_concerns_only_its_file(paths):
    paths[1] = Deadly(paths[1])
    first, bad, last = ask_all(paths, Question("overview"))
    assert isinstance(first, RankAnswer)
    assert isinstance(last, RankAnswer)
    assert f"ended by signal {int(signal.SIGABRT)}" in str(bad)
    assert "rank1.pickle" in str(bad)


def test_no_worker_is_left_behind(paths):
    before = child_processes()
    ask_all(paths, Question("overview"))
    assert child_processes() <= before


def test_ctrl_c_during_the_imports_of_a_worker_ends_it_without_a_word(capfd):
    with Workers() as workers:
        worker = workers._start()
        worker.send_signal(signal.SIGINT)
        assert worker.wait() == 128 + signal.SIGINT
    assert capfd.readouterr().err == ""


def test_no_more_workers_run_than_there_are_files_cores_and_memory_for():
    assert num_workers([1000] * 3, num_cores=8, available=2**40) == 3
    assert num_workers([1000] * 9, num_cores=8, available=2**40) == 8
    assert num_workers([1000, 2**30], num_cores=8, available=2**35) == 1
    assert num_workers([1000] * 9, num_cores=8, available=0) == 1


def test_an_error_of_the_program_is_raised(paths):
    with pytest.raises(KeyError):
        ask_all(paths, Question("no such kind"))


def test_a_script_needs_no_guard_and_ends_without_a_word(paths):
    folder = str(Path(paths[0]).parent)
    text = assert_ends_well(f"""
        import memlake
        print(memlake.ranks({folder!r}).compare("1GiB").outcome)
    """)
    assert text.split() == ["ok"]
