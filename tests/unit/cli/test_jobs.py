"""``memlake show``, ``compare``, ``fit`` and ``advise`` for a folder, a pattern or several files."""

import json
from pathlib import Path

import pytest

from helpers.torch_snapshots import TorchJob, roomy_job, scattered_job, state_job
from memlake.cli import main

# The worker processes have tests of their own, in tests/unit/jobs/.
pytestmark = pytest.mark.usefixtures("without_workers")

COMMANDS = ("show", "compare", "fit", "advise")


@pytest.fixture
def run(tmp_path):
    """A folder with three ranks, of which rank 1 died, and another file."""
    folder = tmp_path / "run"
    folder.mkdir()
    for rank, job in enumerate((roomy_job(860), scattered_job(), roomy_job(900))):
        job.save(folder / f"rank_{rank}.pickle")
    (folder / "README.md").write_text("no snapshot")
    return folder


def said(capsys):
    """What a command printed, with single blanks."""
    return " ".join(capsys.readouterr().out.split())


def test_show_has_one_line_per_rank_the_spread_and_the_worst_rank(run, capsys):
    assert main(["show", str(run)]) == 0
    text = said(capsys)
    assert "3 ranks (1 other file ignored: README.md); torch 2.12 or later (by the form of the files)" in text
    assert "0 no 860 MiB 860 MiB 860 MiB" in text
    assert "1 yes: scattered 960 MiB 960 MiB 960 MiB" in text
    assert "live peak 860 MiB (0) 900 MiB 960 MiB (1)" in text
    assert "Look first at rank 1, the only one that ran out of memory" in text
    assert f"memlake show {run / 'rank_1.pickle'}" in text
    assert "Verdict: enough but scattered" in text
    assert "train.py:12 forward program 960 MiB 100.0 % 1" in text


def test_compare_says_which_policies_fit_on_all_ranks(run, capsys):
    assert main(["compare", str(run)]) == 0
    text = said(capsys)
    assert "The files give the size of the device: 1 GiB" in text
    assert "1 960 MiB OOM 960 MiB 960 MiB" in text
    assert "caching out of memory on 1 of 3 (1)" in text
    assert "lake fits 860 MiB 900 MiB 960 MiB" in text
    assert "The worst is rank 1. PyTorch ran out of memory at row" in text
    assert "set PYTORCH_ALLOC_CONF=expandable_segments:True on every rank" in text


def test_fit_prints_the_device_that_serves_all(run, capsys):
    assert main(["fit", str(run), "--policy", "lake", "--policy", "direct"]) == 0
    text = said(capsys)
    assert "lake 960 MiB 860 MiB 900 MiB 960 MiB 1" in text
    assert "The smallest device that serves all 3 ranks: lake 960 MiB and direct 960 MiB." in text


def test_advise_prints_one_setting_for_all(run, capsys):
    assert main(["advise", str(run)]) == 0
    text = said(capsys)
    assert "Recommendation for every rank; gain and price are the worst of all ranks:" in text
    assert "PYTORCH_ALLOC_CONF=expandable_segments:True gain: all 3 fit (caching runs out of memory on 1)" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pattern_and_several_files_mean_the_same_as_the_folder(run, capsys, command):
    answers = []
    names = [str(path) for path in sorted(run.glob("rank*"), reverse=True)]
    for given in ([str(run)], [str(run / "rank_*.pickle")], names):
        assert main([command, *given, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer.pop("traces") == given
        assert answer.pop("num_ignored") == (1 if given == [str(run)] else 0)
        answers.append(json.dumps(without_times(answer)))
    assert answers[0] == answers[1] == answers[2]


def without_times(value):
    """The JSON value without the measured CPU times."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key != "ns_per_event"}
    return [without_times(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", COMMANDS)
def test_the_json_of_a_rank_is_that_of_its_file_alone(run, capsys, command):
    capacity = [] if command in ("fit", "show") else ["--capacity", "1GiB"]
    assert main([command, str(run), "--json", *capacity]) == 0
    rank = json.loads(capsys.readouterr().out)["ranks"][0]
    path = str(run / "rank_0.pickle")
    assert main([command, path, "--json", *capacity]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone.pop("trace") == path
    assert (rank.pop("rank"), rank.pop("label"), rank.pop("file")) == (0, "0", path)
    assert without_times(rank) == without_times(alone)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_read_is_named_and_the_exit_code_is_2(run, capsys, command):
    (run / "rank_2.pickle").write_bytes(b"\x80\x04")
    assert main([command, str(run)]) == 2
    captured = capsys.readouterr()
    assert "1 file could not be read and is not in the answer: 2." in captured.out
    assert captured.err.startswith("memlake: error: ")
    assert "rank_2.pickle" in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "jobs", "code"),
    [
        ("show", (roomy_job, scattered_job), 0),
        ("compare", (roomy_job, roomy_job), 0),
        ("compare", (roomy_job, state_job), 3),
        ("compare", (state_job, lambda: roomy_job(1000)), 1),  # nothing fits on 900 MiB, whatever the first one needs
        ("advise", (roomy_job, roomy_job), 0),
        ("advise", (roomy_job, state_job), 3),
        ("advise", (state_job, lambda: roomy_job(1000)), 1),
        ("fit", (roomy_job, scattered_job), 0),
        ("fit", (roomy_job, state_job), 3),
    ],
)
def test_exit_codes(tmp_path, capsys, command, jobs, code):
    for rank, job in enumerate(jobs):
        job().save(tmp_path / f"rank{rank}.pickle")
    capacity = ["--capacity", "900MiB"] if command in ("compare", "advise") else []
    assert main([command, str(tmp_path), *capacity]) == code
    capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
def test_different_jobs_are_warned_of_in_one_sentence(run, capsys, command):
    scattered_job(torch=(2, 5)).save(run / "rank_3.pickle")
    assert main([command, str(run)]) == 0
    text = said(capsys)
    assert (
        "These files are of different jobs, so each is answered for itself. They differ in: versions of torch" in text
    )
    assert "Recommendation" not in text
    assert "PYTORCH_ALLOC_CONF" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("text").mkdir()
    Path("text/a.txt").write_text("x")
    for given, what in (
        (["empty"], "'empty' is a directory without snapshots"),
        (["text"], "its 1 other file is ignored"),
        (["x*.pickle"], "no file matches the pattern 'x*.pickle'"),
        (["empty", "gone.pickle"], "'empty' is a directory without snapshots"),
        (["gone.pickle", "text/a.txt"], "gone.pickle: cannot be read: there is no such file"),
        (["gone.pickle"], "there is no file 'gone.pickle', and no such example"),
        ([""], "the trace's name is empty"),
    ):
        assert main([command, *given]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert what in captured.err
        assert len(captured.err.splitlines()) == 1


def test_names_of_files_cannot_write_to_the_terminal(tmp_path, capsys):
    for rank in range(2):
        roomy_job().save(tmp_path / f"\x1b[31mrank{rank}.pickle")
    (tmp_path / "\x1b[2Jx").write_text("other")
    for command in COMMANDS:
        assert main([command, str(tmp_path)]) == 0
        assert "\x1b" not in capsys.readouterr().out


def test_long_names_are_shortened_in_tables(tmp_path, capsys):
    for name in ("a" * 100, "b" * 100):
        roomy_job().save(tmp_path / f"{name}.pickle")
    assert main(["compare", str(tmp_path)]) == 0
    assert f"{'a' * 14}...{'a' * 14} " in capsys.readouterr().out


def test_a_huge_table_still_has_one_line_per_rank(tmp_path, capsys):
    job = TorchJob()
    job.alloc(40)
    job.save(tmp_path / "rank0.pickle")
    for rank in range(1, 60):
        (tmp_path / f"rank{rank}.pickle").write_bytes((tmp_path / "rank0.pickle").read_bytes())
    assert main(["show", str(tmp_path)]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " 40 MiB " in line]
    assert [line for line in lines if line.isdigit()] == [str(rank) for rank in range(60)]


def test_the_command_ends_without_a_word_on_stderr(run, memlake_command):
    done = memlake_command("advise", str(run))
    assert (done.returncode, done.stderr) == (0, "")
