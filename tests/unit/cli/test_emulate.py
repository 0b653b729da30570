import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
count, total = ctypes.c_int(), ctypes.c_size_t()
cuda.cuDeviceGetCount(ctypes.byref(count))
cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
print(count.value, total.value)
sys.exit(7)
"""


def emulate(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "memlake", "emulate", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program_finds_the_emulator_and_its_exit_code_is_ours():
    done = emulate("--devices", "3", "--memory", "1GiB", "--", sys.executable, "-c", PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"3 {2**30}\n", "")


def test_the_dashes_may_be_left_out():
    assert emulate(sys.executable, "-c", PROGRAM).returncode == 7


def test_settings_in_the_environment_are_replaced():
    done = emulate("--devices", "2", "--", sys.executable, "-c", PROGRAM, MEMLAKE_EMULATOR="nonsense")
    assert done.stdout.startswith("2 ")


def test_the_library_path_of_the_environment_is_kept():
    program = "import os; print(os.environ['LD_LIBRARY_PATH'])"
    done = emulate("--", sys.executable, "-c", program, LD_LIBRARY_PATH="/some/where:/else/where")
    first, *rest = done.stdout.strip().split(":")
    assert (Path(first) / "libcuda.so.1").exists()
    assert rest == ["/some/where", "/else/where"]


def test_memlake_itself_runs_on_it():
    done = emulate("--devices", "2", "--", sys.executable, "-c", "import memlake; print(len(memlake.devices()))")
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_the_ledger_is_printed_or_written_when_the_program_ends(tmp_path):
    file = tmp_path / "ledger.json"
    done = emulate("--report", "--ledger", str(file), "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 7
    assert "ledger at exit" in done.stderr
    assert json.loads(file.read_text())["calls"]["cuInit"] == 1


def test_refused_calls_are_explained_when_they_happen():
    program = """
        import ctypes
        cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2(), nvml.nvmlDeviceGetTemperature(), cuda.cuInit(0), cuda.cuDeviceGetCount(None), cuda.cuInit(0)
    """
    lines = {
        explain: emulate(*explain, "--", sys.executable, "-c", textwrap.dedent(program)).stderr.splitlines()
        for explain in ((), ("--explain",))
    }
    assert lines == {
        (): [],
        ("--explain",): [
            "memlake emulator: nvmlDeviceGetTemperature returned 3: emulated devices do not have this",
            "memlake emulator: cuDeviceGetCount returned 1: count is NULL",
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "no program"),
        (["--"], "no program"),
        (["--", "no-such-program-anywhere"], "no-such-program-anywhere"),
        (["--devices", "many", "--", "true"], "--devices"),
        (["--devices", "0", "--", "true"], "devices"),
        (["--memory", "huge", "--", "true"], "memory"),
        (["--memory=-1GiB", "--", "true"], "negative"),
        (["--peers", "some", "--", "true"], "some"),
        (["--backing", "ram", "--", "true"], "ram"),
        (["--profile", "amd", "--", "true"], "amd"),
        (["--relax", "everything", "--", "true"], "everything"),
        (["--driver-version", "new", "--", "true"], "--driver-version"),
        (["--name", "a,b", "--", "true"], "name"),
        (["--ledger", "/no/such/folder/ledger.json", "--", "true"], "/no/such/folder"),
        (["--ledger", "a,b", "--", "true"], "','"),
    ],
)
def test_bad_input_is_told_before_the_program_starts(arguments, named):
    done = emulate(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("memlake: error: ")
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_program_is_told(tmp_path):
    for content, rights, reason in ((b"\x7fELF?", 0o755, "Exec format error"), (b"", 0o644, "chmod +x")):
        path = tmp_path / "file"
        path.write_bytes(content)
        path.chmod(rights)
        done = emulate("--", str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"memlake: error: cannot run '{path}'")
        assert reason in done.stderr
    assert "the file exists, but you may not execute it" in done.stderr
    assert "it is a folder" in emulate("--", str(tmp_path)).stderr
    assert "there is no such program" in emulate("--", str(tmp_path / "missing")).stderr


def test_devices_may_differ():
    program = "import memlake; print([gpu.total_memory >> 20 for gpu in memlake.devices()])"
    done = emulate("--memory", "64MiB/128MiB", "--granularity", "2MiB/4MiB", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "[64, 128]\n"), done


def test_help_says_which_programs_cannot_run_on_it():
    done = emulate("--help")
    assert done.returncode == 0
    assert "CuPy or JAX, refuse any driver but the real one" in done.stdout
