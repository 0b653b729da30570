"""A policy is a folder and a line: the native tests build a library with a policy more, and it appears everywhere.

tests/native/toy_policy/ has the policy, and a C program that uses it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.processes import run_python

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def environment():
    default = ROOT / "build/release/tests/native/toy_policy/libmemlake.so"
    library = Path(os.environ.get("MEMLAKE_TOY_LIBRARY", default))
    if not library.is_file():
        pytest.skip(f"the native tests, which have the policy, are not built: {library} (make test-native)")
    sources = [path for path in (ROOT / "core").rglob("*") if path.suffix in (".cpp", ".hpp", ".inc")]
    if library.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        pytest.skip("the native tests are older than the core's sources (make test-native)")
    # The loader gives every later libmemlake.so the one that is there.
    return {"LD_PRELOAD": str(library)}


def test_python_has_it(environment):
    done = run_python(
        """
        import pickle
        import memlake
        from memlake.policies import known_policies, resolve_policy

        assert list(known_policies())[-1] == "toy", list(known_policies())
        options = memlake.policy("toy,at_most:1MiB")
        assert (options.name, options.at_most, options.label) == ("toy", 2**20, "toy (at_most:1048576)")
        assert options.summary == "a policy of the tests"
        assert options == type(options)(at_most="1MiB") == pickle.loads(pickle.dumps(options))
        assert memlake.policy("toy").at_most == 2**30
        assert not options.capabilities.preallocation
        with memlake.emulate(memory="64MiB") as gpus, memlake.Pool(gpus, "toy,at_most:1MiB") as pool:
            pool.allocate(4096).close()
            try:
                pool.allocate("2MiB")
            except memlake.OutOfMemory as error:
                assert error.details.policy == "toy"
            else:
                raise AssertionError("its option has no effect")
        """,
        **environment,
    )
    assert (done.returncode, done.stderr) == (0, "")


def memlake_command(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "memlake", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_line_has_it(environment):
    done = memlake_command(
        environment, "compare", "train_moe", "--capacity", "80GiB", "--policy", "toy", "--policy", "toy,at_most:100GiB"
    )
    assert "toy (at_most:107374182400)" in done.stdout, done
    assert "a policy of the tests" in done.stdout


@pytest.mark.parametrize("command", ["compare", "replay", "fit"])
def test_the_help_lists_it(environment, command):
    assert "toy" in memlake_command(environment, command, "--help").stdout
