import os
import re
import signal
import subprocess
import sys

import pytest

import memlake
from helpers.processes import run_python
from memlake.cli import main
from memlake.policies.known import known_policies


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"memlake {memlake.__version__}\n"


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for command in ("compare", "replay", "fit", "emulate", "doctor"):
        assert f"\n    {command} " in out


@pytest.mark.parametrize("command", ["compare", "replay", "fit", "emulate", "doctor"])
def test_every_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "exit code" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["compare", "replay", "fit"])
def test_the_help_names_every_policy(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    listed = re.search(r"a policy \((.*?)\)", capsys.readouterr().out, re.DOTALL).group(1)
    assert set(re.split(r",\s+", listed)) == set(known_policies())


def test_a_reader_that_goes_away_ends_the_command_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "memlake", "compare", "train_moe", "--capacity", "60GiB", "--json"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_an_interrupted_command_says_so_and_no_more():
    done = run_python("""
        import signal, sys
        from memlake.cli import main
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        sys.exit(main(["fit", "train_opt-13b_lora_offload"]))
    """)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "memlake: interrupted\n")


@pytest.mark.parametrize("arguments", [[], ["--no-such-option"], ["no-such-command"]])
def test_bad_input_ends_with_2_and_talk_on_stderr(arguments):
    done = subprocess.run([sys.executable, "-m", "memlake", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: memlake" in done.stderr
