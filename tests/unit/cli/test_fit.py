import json

import pytest

from helpers.torch_snapshots import Refused, TorchJob, late_job
from memlake.cli import main


@pytest.fixture
def pooled(tmp_path):
    """The snapshot of a job that died on 512 MiB with 200 MiB free in a private pool, which a replay would use."""
    job = TorchJob(512)
    job.free(job.alloc(200, pool=(0, 1)))
    job.alloc(250)
    with pytest.raises(Refused):
        job.alloc(100)
    return str(job.save(tmp_path / "pooled.pickle"))


def test_the_smallest_device_of_each_policy(capsys, compared_policies):
    assert main(["fit", "train_moe"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("live peak 53.58 GiB, 16064 rows\n")
    rows = out.splitlines()[4 : 4 + len(compared_policies)]
    assert [line.split()[0] for line in rows] == compared_policies
    assert "53.58 GiB are live at most" in out


def test_json_has_the_smallest_device_and_its_ratio(capsys):
    assert main(["fit", "train_moe", "--policy", "caching", "--json"]) == 0
    text = json.loads(capsys.readouterr().out)
    (entry,) = text["policies"]
    assert entry["min_capacity"] == entry["capacity"]
    assert entry["over_live"] == entry["min_capacity"] / text["peak_live"]


def test_a_policy_that_fits_nowhere_is_null_and_still_0(capsys):
    arguments = ["fit", "train_moe", "--policy", "per_process_memory_fraction:0.1"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"][0]["min_capacity"] is None
    assert main(arguments) == 0
    assert "more than 117.87 GiB" in capsys.readouterr().out


@pytest.mark.parametrize("policies", [(), ("--policy", "lake"), ("--policy", "caching")])
def test_a_file_that_cannot_decide_is_3_as_it_is_for_compare(pooled, capsys, policies):
    assert main(["compare", pooled, *policies]) == 3
    capsys.readouterr()
    assert main(["fit", pooled, *policies]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "needs at least a device of" in text
    assert "Private pools held back 200 MiB of free memory" in text
    assert main(["fit", pooled, *policies, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["is_decided"], found["outcome"]) == (False, "unknown")
    assert found["doubt"] in found["sentence"]
    for entry in found["policies"]:
        assert entry["outcome"] == "unknown"
        assert main(["compare", pooled, "--capacity", str(entry["min_capacity"]), *policies]) == 3
        capsys.readouterr()


@pytest.mark.parametrize(("held", "code"), [(500, 3), (60, 0)])
def test_a_late_record_decides_if_the_job_held_no_more_before(tmp_path, capsys, held, code):
    path = str(late_job(held).save(tmp_path / "late.pickle"))
    assert main(["fit", path, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    for entry in found["policies"]:
        assert main(["compare", path, "--capacity", str(entry["min_capacity"]), "--policy", entry["policy"]]) == code


def test_a_rank_that_cannot_decide_makes_it_3_for_the_job(pooled, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    late_job(60).save(run / "rank_0.pickle")
    (run / "rank_1.pickle").write_bytes((tmp_path / "pooled.pickle").read_bytes())
    assert main(["fit", str(run), "--policy", "lake"]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "1 complete 350 MiB at least 350 MiB" in text
    assert "The smallest device that serves all 2 ranks: lake at least" in text
    assert "It cannot be known for rank 1. Private pools held back 200 MiB" in text
    assert main(["fit", str(run), "--policy", "lake", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["undecided"], found["policies"][0]["is_decided"]) == ("unknown", ["1"], False)


def test_bad_input_is_2(memlake_command):
    for arguments, sentence in (
        (["nothing.pickle"], "there is no file"),
        (["train_moe", "--policy", "nothing"], "no policy is named"),
        (["train_moe", "--events", "x"], "events must be"),
        (["train_moe", "--capacity", "1GiB"], "unrecognized arguments"),
    ):
        done = memlake_command("fit", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
