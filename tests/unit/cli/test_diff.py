"""``memlake diff``."""

import json
import pickle

import pytest

from helpers.torch_snapshots import MIB, TorchJob, scattered_job
from memlake.cli import main

LONG = "/home/someone/" + "module" * 20 + ".py:1234 " + "function" * 30
EXAMPLE = "train_opt-13b_lora_offload"


@pytest.fixture
def files(tmp_path):
    """Two snapshots: in the second, one call site has moved and has more."""
    paths = []
    for name, line, sizes in (("before", 12, [20]), ("after", 15, [20, 30])):
        job = TorchJob()
        for mib in sizes:
            job.alloc_at(f"/home/someone/job/net.py:{line} forward", mib)
        job.alloc_at(LONG, 10)
        paths.append(str(job.save(tmp_path / f"{name}.pickle")))
    return paths


def test_what_grew_is_printed(files, capsys):
    assert main(["diff", *files]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "live peak 30 MiB 60 MiB +30 MiB +100.0 %" in text
    assert "Peak against peak, by call site:" in text
    assert "net.py:12>15 forward +30 MiB 20 MiB 50 MiB 1 2" in text
    assert "(1 unchanged) 0 B 10 MiB 10 MiB 1 1" in text
    assert "1>2: the line is 1 in A and 2 in B" in text
    assert "net.py:15 forward has +30 MiB" in text
    assert f"A {files[0]}"[:20] in text


def test_tables_fit_on_80_columns(tmp_path, capsys):
    paths = []
    for name, sizes in (("before", [20]), ("after", [20, 30])):
        job = TorchJob()
        for mib in sizes:
            job.alloc_at(LONG, mib)
        paths.append(str(job.save(tmp_path / f"{name}.pickle")))
    assert main(["diff", *paths]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if ":1234 " in line and " +30 MiB  " in line]
    assert len(rows) == 2
    assert max(map(len, rows)) <= 80


def test_json_has_the_figures(files, capsys):
    assert main(["diff", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["trace"], found["a"]["name"], found["b"]["name"]) == (files[0], *files)
    assert found["end"]["growth"] == 30 * MIB
    assert found["end"]["rows"][0]["match"] == "moved"


def test_the_number_of_sites_can_be_chosen(tmp_path, capsys):
    paths = []
    for name, size in (("before", 10), ("after", 20)):
        job = TorchJob()
        for line in range(5):
            job.alloc_at(f"/job/net.py:{line + 1} f{line}", size)
        paths.append(str(job.save(tmp_path / f"{name}.pickle")))
    assert main(["diff", *paths, "--sites", "2"]) == 0
    assert "(3 more that grew: --sites)" in capsys.readouterr().out


def test_the_same_file_twice_differs_in_nothing(files, capsys):
    assert main(["diff", files[0], files[0]]) == 0
    assert "A and B record the same: nothing differs." in capsys.readouterr().out


def test_two_steps_of_one_file_are_compared(capsys):
    assert main(["diff", EXAMPLE, "--steps", "2", "4"]) == 0
    text = capsys.readouterr().out
    assert f"A  step 2 of {EXAMPLE}" in text
    assert "Peak against peak, of the steps, by call site:" in text


def test_what_was_never_freed_is_listed(files, capsys):
    assert main(["diff", files[0], "--never-freed"]) == 0
    assert "30 MiB in 2 allocations of the recorded part were not freed" in capsys.readouterr().out
    assert main(["diff", files[0], "--never-freed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 30 * MIB


def test_a_state_cannot_tell_what_was_never_freed(tmp_path, capsys):
    job = TorchJob()
    job.alloc(20)
    job.events.clear()
    path = str(job.save(tmp_path / "state.pickle"))
    assert main(["diff", path, "--never-freed"]) == 3
    assert "The file has no history" in capsys.readouterr().out
    # The ends can still be compared.
    assert main(["diff", path, str(scattered_job().save(tmp_path / "other.pickle"))]) == 0
    assert "Only the ends are compared" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([EXAMPLE], "one file has nothing to be compared with; give a second file, --steps 3 7"),
        ([EXAMPLE, "no_such_file"], "there is no file 'no_such_file', and no such example"),
        (["no_such_file", EXAMPLE], "there is no file 'no_such_file', and no such example"),
        (
            [EXAMPLE, "train_moe", "--steps", "1", "2"],
            "--steps is about one file; hint: leave 'train_moe' or --steps out",
        ),
        ([EXAMPLE, "train_moe", "--never-freed"], "--never-freed is about one file"),
        ([EXAMPLE, "--never-freed", "--steps", "1", "2"], "ask one at a time"),
        ([EXAMPLE, "--steps", "1", "99"], "there is no step 99 in this trace; there are: "),
        ([EXAMPLE, "--steps", "1", "x"], "--steps must be a number from 0"),
        ([EXAMPLE, "--steps", "1", "-2"], "--steps must be a number from 0"),
        ([EXAMPLE, EXAMPLE, "--sites", "0"], "--sites must be a number from 1"),
        (
            [EXAMPLE, EXAMPLE, "--device", "0,1,2"],
            "--device must be a device's number, or two, got '0,1,2'; hint: --device 0,1",
        ),
        ([EXAMPLE, EXAMPLE, "--device", "a"], "--device must be a device's number"),
        ([EXAMPLE, EXAMPLE, "--device", "1"], "which has no devices to choose from"),
        ([EXAMPLE, "/"], "is a directory"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys):
    assert main(["diff", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("memlake: error: ")
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_a_file_that_is_no_trace_is_named(tmp_path, files, capsys):
    path = tmp_path / "broken.pickle"
    path.write_bytes(b"\x80\x04junk")
    assert main(["diff", files[0], str(path)]) == 2
    assert "broken.pickle" in capsys.readouterr().err


def of_device(job, number):
    whole = job.snapshot()
    whole["device_traces"] = [*([[]] * number), *whole["device_traces"]]
    for segment in whole["segments"]:
        segment["device"] = number
    return whole


def test_devices_can_be_chosen_for_both_files(tmp_path, capsys):
    job = TorchJob()
    job.alloc(20)
    job.alloc(30)
    paths = []
    for number in (0, 1):
        path = tmp_path / f"rank{number}.pickle"
        path.write_bytes(pickle.dumps(of_device(job, number)))
        paths.append(str(path))
    assert main(["diff", *paths]) == 2
    assert "A is of device 0 and B of device 1" in capsys.readouterr().err
    assert main(["diff", *paths, "--device", "0,1"]) == 0
    assert main(["diff", *paths, "--device", "0"]) == 2
    assert "says nothing of device 0" in capsys.readouterr().err


def test_a_converted_file_needs_no_choice_of_its_device(tmp_path, files, capsys):
    small = str(tmp_path / "small.npz")
    assert main(["convert", files[1], small]) == 0
    assert main(["diff", files[0], small, "--device", "0"]) == 0
    assert "+30 MiB" in capsys.readouterr().out


def test_names_in_the_files_do_not_reach_the_terminal_as_they_are(tmp_path, capsys):
    paths = []
    for name, sizes in (("a", [10]), ("b", [10, 20])):
        job = TorchJob()
        for mib in sizes:
            job.alloc_at("/x/\x1b[31mevil.py:1 f\x1b[0m", mib)
        job.settings = job.settings | {"evil\x1b[31m": name}
        paths.append(str(job.save(tmp_path / f"{name}.pickle")))
    assert main(["diff", *paths]) == 0
    assert "\x1b" not in capsys.readouterr().out
