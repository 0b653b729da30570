import subprocess
import sys

import pytest

import memlake
from memlake.cli import main


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"memlake {memlake.__version__}\n"


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "emulate" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--no-such-option"], ["no-such-command"]])
def test_bad_input_ends_with_2_and_talk_on_stderr(arguments):
    done = subprocess.run([sys.executable, "-m", "memlake", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: memlake" in done.stderr
