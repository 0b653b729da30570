import os
import pty
import re
import subprocess
import sys

import pytest

from memlake.tables.terminal import print_table, print_text, visible


def test_a_table_is_plain_text_where_there_is_no_terminal(capsys):
    print_table(("policy", "bytes"), [("caching", "1"), ("a\x1b[31m", "12345678")])
    assert capsys.readouterr().out == ("policy      bytes\n-------  --------\ncaching         1\na?[31m   12345678\n")


def test_a_paragraph_is_wrapped_but_never_inside_a_word(capsys):
    print_text("word " * 40 + "PYTORCH_ALLOC_CONF=" + "x" * 150)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 100
    assert lines[-1] == "PYTORCH_ALLOC_CONF=" + "x" * 150


def test_what_a_terminal_would_obey_is_not_shown():
    assert visible("a\x1b[2Jb\r\nc\x9b") == "a?[2Jb??c?"


def on_terminal(width, monkeypatch, capsys):
    """What a table of a comparison looks like on a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = [("caching", "out of memory at row 111153", "63.97 GiB", "-"), ("lake", "fits", "59.51 GiB", "0.991")]
    print_table(("policy", "outcome", "held peak", "live/held"), rows, left=2)
    return capsys.readouterr().out


@pytest.mark.parametrize("has_rich", [True, False])
@pytest.mark.parametrize("width", [20, 40, 60, 120])
def test_a_narrow_terminal_loses_numbers_and_says_which_but_no_policy_and_no_outcome(
    monkeypatch, capsys, width, has_rich
):
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
    out = on_terminal(width, monkeypatch, capsys)
    words = re.sub(r"\x1b\[[0-9;]*m", "", out)
    for word in ("policy", "caching", "lake", "fits", "out"):
        assert word in words
    assert ("59.51 GiB" in words) == (width >= 60)
    assert ("0.991" in words) == (width >= 60)
    assert ("too narrow for: held peak, live/held" in " ".join(words.split())) == (width < 60)


@pytest.mark.parametrize(
    "arguments", [["fit", "train_moe"], ["compare", "train_moe", "--capacity", "54GiB"], ["doctor"]]
)
def test_a_terminal_sees_the_same_words_and_progress_apart(arguments):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "memlake", *arguments], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that the terminal's other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0
    assert (b"works here" if arguments == ["doctor"] else b"caching") in seen
