import json

import pytest

from helpers.torch_snapshots import TorchJob, scattered_job
from memlake.cli import main

OFFLOAD = "train_opt-13b_lora_offload"


def advise(capsys, *arguments):
    code = main(["advise", *arguments])
    done = capsys.readouterr()
    assert done.err == ""
    return code, done.out


def test_the_report_ends_with_lines_to_paste(capsys):
    code, out = advise(capsys, OFFLOAD, "--capacity", "64GiB")
    assert code == 0
    assert out.startswith("device 64 GiB, live peak 58.98 GiB\n")
    lines = out.splitlines()
    at = lines.index("Recommendation:")
    assert lines[at + 1] == "  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert lines[at + 2].startswith("    gain: fits, where caching runs out of memory; holds 59.63 GiB and leaves 4.37")
    assert lines[at + 3].startswith("    price: ")
    pasted = [line for line in lines if line.startswith("  PYTORCH_")]
    assert 1 <= len(pasted) <= 4
    assert lines.count("Alternatives:") == (len(pasted) > 1)


def test_json_says_the_same(capsys):
    code, out = advise(capsys, OFFLOAD, "--capacity", "64GiB", "--json")
    text = json.loads(out)
    assert (code, text["outcome"], text["trace"]) == (0, "ok", OFFLOAD)
    assert text["recommendation"]["line"] == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert text["recommendation"]["saved"] is None
    assert len(text["alternatives"]) <= 3
    assert text["lower_bound"] == text["peak_live"]
    assert text["overhead"] is None  # the default of PyTorch ran out of memory
    assert {entry["policy"] for entry in text["policies"]} == {"lake", "caching", "expandable"}
    assert text["largest_sites"] == []


def test_a_peak_that_does_not_fit_is_said_first(capsys):
    code, out = advise(capsys, OFFLOAD, "--capacity", "a100-40gb")
    assert code == 1
    paragraphs = [" ".join(paragraph.split()) for paragraph in out.split("\n\n")]
    assert "less 512 MiB for the CUDA context" in paragraphs[0]
    assert paragraphs[1].startswith("The job cannot fit on a device of 39 GiB under any allocator: 58.98 GiB are live")
    assert paragraphs[1].count("allocation") >= 5
    assert "Recommendation" not in out


def test_a_file_that_cannot_decide_ends_with_3(capsys, tmp_path):
    job = TorchJob(1024)
    job.alloc(100)
    job.events.clear()
    code, out = advise(capsys, str(job.save(tmp_path / "state.pickle")))
    assert code == 3
    assert "it cannot be known whether the job fits" in " ".join(out.split())
    assert "PYTORCH_" not in out


def test_a_job_that_died_is_told_what_happened_and_what_is_not_in_the_file(capsys, tmp_path):
    code, out = advise(capsys, str(scattered_job().save(tmp_path / "oom.pickle")))
    words = " ".join(out.split())
    assert code == 0
    assert "The file gives the size of the device: 1 GiB." in words
    assert "PyTorch ran out of memory at row" in words
    assert "Verified under caching: 25 of 25 addresses equal." in words
    assert words.endswith("what it would have needed after it is not in the file.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([OFFLOAD, "--needs", "graphs"], "there is no need 'graphs'; did you mean cuda-graphs?"),
        ([OFFLOAD, "--needs", ""], "there is no need ''; known: ipc, nccl-registration, cuda-graphs, wsl"),
        ([OFFLOAD, "--capacity", "h1000"], "did you mean h100-80gb"),
        (["no-such-file.pickle"], "there is no file 'no-such-file.pickle'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, sentence):
    assert main(["advise", *arguments]) == 2
    done = capsys.readouterr()
    assert done.out == ""
    assert sentence in done.err
    assert done.err.count("\n") == 1
