import json

import pytest

from memlake.cli import main


def replay(capsys, *arguments):
    code = main(["replay", *arguments])
    done = capsys.readouterr()
    assert done.err == ""
    return code, done.out


@pytest.mark.parametrize(("capacity", "code"), [("60GiB", 0), ("54GiB", 1)])
def test_the_exit_code_says_whether_it_fits(capsys, capacity, code):
    returned, out = replay(capsys, "train_moe", "--capacity", capacity, "--policy", "caching", "--json")
    assert returned == code
    text = json.loads(out)
    assert (text["policy"], text["trace"]) == ("caching", "train_moe")
    assert text["outcome"] == ("oom" if code else "ok")


def test_the_default_policy_is_that_of_pools(capsys):
    _, out = replay(capsys, "train_moe", "--capacity", "60GiB", "--json")
    assert json.loads(out)["policy"] == "lake"


def test_a_policy_is_given_with_its_options(capsys):
    _, out = replay(capsys, "train_moe", "--capacity", "60GiB", "--policy", "stitch,frag_limit:64MiB")
    assert "stitch (frag_limit:67108864)" in out


def test_the_figures_are_printed_for_people(capsys):
    _, out = replay(capsys, "train_moe", "--capacity", "60GiB", "--policy", "expandable")
    assert "held peak" in out
    assert "cuMemCreate" in out
    assert out.splitlines()[-1].startswith("expandable fits on a device of 60 GiB and holds ")


def test_a_timeline_is_a_picture_and_columns(capsys):
    _, out = replay(capsys, "train_moe", "--capacity", "60GiB", "--timeline", "10")
    assert sum(line.endswith("GiB") and "#" in line for line in out.splitlines()) >= 9
    _, out = replay(capsys, "train_moe", "--capacity", "60GiB", "--timeline", "10", "--json")
    assert {len(column) for column in json.loads(out)["timeline"].values()} == {11}


def test_going_on_replays_all_rows(capsys):
    code, out = replay(capsys, "train_moe", "--capacity", "54GiB", "--policy", "caching", "--go-on", "--json")
    text = json.loads(out)
    assert code == 1
    assert text["rows"] == 16064
    assert text["num_ooms"] >= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--timeline", "-1"], "--timeline must be a whole number of samples"),
        (["--timeline", "x"], "--timeline must be a whole number of samples"),
        (["--timeline", "99999999999"], "--timeline must be a whole number of samples"),
        (["--policy", "caching,expandable"], "cannot read 'expandable'"),
        (["--events", "lag:"], "events must be"),
    ],
)
def test_bad_input_is_one_sentence_and_2(memlake_command, arguments, sentence):
    done = memlake_command("replay", "train_moe", "--capacity", "60GiB", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_example_has_no_devices_to_choose_from(capsys):
    assert main(["replay", "train_moe", "--device", "5"]) == 2
    assert "an example, which has no devices to choose from" in capsys.readouterr().err
