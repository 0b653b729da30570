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
        # Python warns about the open file of a module if it is interrupted while it imports one.
        import memlake.analysis, memlake.trace.loading, memlake.trace.examples
        from memlake.cli import main
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        # The search takes seconds; reading the file does not, and NumPy may swallow an interrupt there.
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        sys.exit(main(["fit", "train_opt-13b_lora_offload"]))
    """)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "memlake: interrupted\n")


@pytest.mark.parametrize(
    "arguments", [["doctor"], ["--help"], ["--version"], ["fit", "train_moe", "--policy", "caching", "--json"]]
)
@pytest.mark.parametrize("target", ["/dev/full", None])
def test_a_stdout_that_cannot_be_written_to_is_one_sentence_and_2(arguments, target):
    closes = "exec 1>&-" if target is None else f"exec 1>{target}"
    command = ["sh", "-c", f'{closes}; exec "$@"', "sh", sys.executable, "-m", "memlake", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    reason = "stdout is closed" if target is None else "cannot write the result: No space left on device"
    assert done.stderr.startswith(f"memlake: error: {reason}")


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (
            ["compare", "train_moe", "--capcity", "8GiB"],
            "unrecognized arguments: --capcity 8GiB; did you mean --capacity?",
        ),
        (["compare", "train_moe", "--polcy=lake"], "did you mean --policy?"),
        (["fit", "train_moe", "--jsn"], "did you mean --json?"),
        (["emulate", "--device", "2", "--", "true"], "did you mean --devices?"),
        (["compar", "train_moe"], "did you mean compare?"),
        # An abbreviation would be another option's once there is one.
        (["compare", "train_moe", "--cap", "8GiB"], "unrecognized arguments: --cap 8GiB; did you mean --capacity?"),
    ],
)
def test_a_misspelt_or_abbreviated_name_is_refused_with_a_suggestion(capsys, arguments, suggestion):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.strip().endswith(suggestion)


def test_a_name_that_resembles_no_other_gets_no_suggestion(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "train_moe", "--xyzzy"])
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--no-such-option"], ["no-such-command"]])
def test_bad_input_ends_with_2_and_talk_on_stderr(arguments):
    done = subprocess.run([sys.executable, "-m", "memlake", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: memlake" in done.stderr
