"""Answers for jobs of several ranks print as the commands do, as text and as HTML, and have a short repr."""

import contextlib
import io
import json
import re

import pytest

import memlake
from helpers.torch_snapshots import roomy_job, scattered_job, state_job
from memlake.cli import main
from memlake.jobs import Ranks

pytestmark = pytest.mark.usefixtures("without_workers")

ANSWERS = {
    "show": Ranks.overview,
    "compare": Ranks.compare,
    "fit": Ranks.fit,
    "advise": Ranks.advise,
}


@pytest.fixture(params=["one job", "a file that cannot decide", "different jobs", "an unreadable file"])
def run(request, tmp_path):
    """A folder with snapshots."""
    folder = tmp_path / "run"
    folder.mkdir()
    roomy_job(860).save(folder / "rank_0.pickle")
    scattered_job().save(folder / "rank_1.pickle")
    if request.param == "a file that cannot decide":
        state_job().save(folder / "rank_2.pickle")
    elif request.param == "different jobs":
        roomy_job(860, torch=(2, 4)).save(folder / "rank_2.pickle")
    elif request.param == "an unreadable file":
        (folder / "rank_2.pickle").write_bytes(b"no snapshot")
    return folder


def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)
    return out.getvalue()


@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_prints_what_its_command_prints(run, command):
    answer = ANSWERS[command](memlake.ranks(run))
    assert str(answer) + "\n" == printed(command, str(run))
    assert json.loads(printed(command, str(run), "--json")).keys() - {"traces"} == answer.to_json().keys()
    assert re.fullmatch(r"<memlake\.Job\w+ of [23] ranks?\b.*>", repr(answer))
    assert len(repr(answer)) <= 160


def test_an_overview_prints_as_many_sites_and_the_steps_if_asked_to(run):
    found = memlake.ranks(run).overview()
    assert found.to_text(num_sites=1, steps=True) + "\n" == printed("show", str(run), "--sites", "1", "--steps")


@pytest.mark.parametrize("command", ANSWERS)
def test_names_of_files_are_escaped_in_html(tmp_path, command):
    for name in ("<script>a", "<b>&"):
        roomy_job(860).save(tmp_path / f"{name}.pickle")
    html = ANSWERS[command](memlake.ranks(tmp_path))._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;a" in html


def test_show_takes_the_part_of_the_context_for_several_files(tmp_path, capsys):
    scattered_job().save(tmp_path / "rank_0.pickle")
    asked = ["show", str(tmp_path), "--capacity", "2GiB"]
    assert main(asked) == 0
    by_default = capsys.readouterr().out
    assert main([*asked, "--reserve", "1GiB"]) == 0
    assert capsys.readouterr().out != by_default
    assert main(["show", str(tmp_path), "--reserve", "1GiB"]) == 2
    assert "reserve is a part of the memory of the device" in capsys.readouterr().err
