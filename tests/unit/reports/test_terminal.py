import os
import pty
import subprocess
import sys

import pytest

from memlake.reports.terminal import print_table, print_text, visible


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
