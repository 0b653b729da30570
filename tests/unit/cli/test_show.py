"""``memlake show``."""

import json

import pytest

from helpers.torch_snapshots import TorchJob, scattered_job
from memlake.cli import main


@pytest.fixture
def shown(tmp_path, capsys):
    """Runs the command on the snapshot of a job and returns what it prints, with single blanks."""

    def run(job, *arguments):
        path = job.save(tmp_path / "snapshot.pickle")
        assert main(["show", str(path), *arguments]) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_snapshot_of_an_oom_is_explained_on_one_screen(shown, tmp_path, capsys):
    text = shown(scattered_job())
    assert "torch 2.12 or later (by the form of the file), ran under caching" in text
    assert "history complete" in text
    assert "at end allocated 480 MiB, held 960 MiB in 1 segment, largest free piece 40 MiB" in text
    assert "peak live 960 MiB, held 960 MiB" in text
    assert "external free pieces between blocks in use 480 MiB 50.0 %" in text
    assert "Verdict: enough but scattered" in text
    assert "train.py:12 forward program 960 MiB 100.0 % 1" in text
    assert "Verified under caching: 25 of 25 addresses equal." in text
    main(["show", str(tmp_path / "snapshot.pickle")])
    assert len(capsys.readouterr().out.splitlines()) < 40


def test_a_state_says_what_it_does_not_know(shown):
    job = TorchJob()
    job.free(job.alloc(500))
    job.alloc(40)
    job.events.clear()
    text = shown(job)
    assert "history state: it has no events" in text
    assert "peak unknown: the file has no history" in text
    assert "Live when the snapshot was taken: 40 MiB in 1 allocation. The peak is not known." in text
    assert "Not verified: the file has no history" in text
    assert "the figures above are read from the file" in text


def test_a_late_recording_is_named_with_its_peaks(shown):
    job = TorchJob()
    job.is_recording = False
    job.alloc(300)
    job.is_recording = True
    for _ in range(3):
        job.free(job.alloc(100))
    text = shown(job)
    assert "peak live 400 MiB, held 400 MiB (of the recorded part)" in text
    assert "(allocated before the recording) none 300 MiB 75.0 % 1" in text


def test_json_has_what_the_screen_has(tmp_path, capsys):
    path = scattered_job().save(tmp_path / "snapshot.pickle")
    assert main(["show", str(path), "--json"]) == 0
    text = json.loads(capsys.readouterr().out)
    assert text["trace"] == str(path)
    assert (text["history"], text["oom"]["verdict"], text["policy"]) == ("complete", "scattered", "caching")
    assert text["at_end"]["external"] == 480 * 2**20


def test_steps_are_shown_if_they_are_known(shown, capsys):
    assert main(["show", "train_opt-13b_lora_offload", "--steps"]) == 0
    assert "steps; the rows of the trace name them." in capsys.readouterr().out
    assert "The steps are not known" in shown(scattered_job(), "--steps")
    assert "steps" not in shown(scattered_job())


def test_the_number_of_sites_can_be_chosen(capsys):
    assert main(["show", "train_opt-13b_lora_offload", "--sites", "2"]) == 0
    text = capsys.readouterr().out
    assert text.count(" tag ") == 2
    assert "more call sites: --sites" in text


@pytest.mark.parametrize("sites", ["0", "-3", "many", "1" * 40, ""])
def test_a_bad_number_of_sites_is_refused(sites, capsys):
    assert main(["show", "train_opt-13b_lora_offload", f"--sites={sites}"]) == 2
    assert "--sites must be a number from 1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no_such_file"], ["train_opt-13b_lora_offload", "--capacity", "much"]])
def test_bad_input_is_one_sentence(arguments, capsys):
    assert main(["show", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("memlake: error: ")
    assert printed.err.count("\n") == 1


def test_names_in_the_file_do_not_reach_the_terminal_as_they_are(shown):
    job = TorchJob()
    job.alloc(20)
    job.events[-1]["frames"] = [{"filename": "/x/\x1b[31mevil.py", "line": 1, "name": "f"}]
    job.free(job.alloc(10))
    assert "\x1b" not in shown(job)
