import json

from memlake.cli import main


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
