"""Uses the installed memlake as a new user does, and fails if anything does not work. `make wheel` runs this program in
a fresh environment of each Python, with a PATH that has no compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

# A program that knows nothing of memlake: it loads the CUDA driver by its usual name.
CLIENT = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
count = ctypes.c_int()
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value, "devices")
"""

SNAPSHOT = "train_opt-13b_lora_offload"


def run(*arguments: str) -> str:
    """Runs a command of memlake and returns what it prints."""
    done = subprocess.run([sys.executable, "-m", "memlake", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"memlake {' '.join(arguments)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(condition: bool, what: str) -> None:
    """Ends the program if something is not as it must be."""
    if not condition:
        sys.exit(f"not as expected: {what}")


def try_pool() -> None:
    """Uses a pool on the emulator: a request that needs scattered memory, and an error that crosses the libraries."""
    import memlake

    expect(sys.prefix in str(Path(memlake.__file__)), f"memlake is {memlake.__file__}, outside of {sys.prefix}")
    with memlake.emulate(memory="1GiB") as (device,):
        with memlake.Pool(device) as pool:
            buffers = [pool.allocate("8MiB") for _ in range(100)]
            for buffer in buffers[::2]:
                buffer.close()
            large = pool.allocate("384MiB")
            pool.check()
            try:
                pool.allocate("2GiB")
            except memlake.OutOfMemory as error:
                expect("2 GiB" in str(error), f"the error says {error}")
            else:
                sys.exit("2 GiB were allocated on a device of 1 GiB")
            large.close()
            for buffer in buffers[1::2]:
                buffer.close()
        expect(memlake.emulator.ledger().held(device) == 0, "the pool left memory behind")


def main() -> None:
    expect(shutil.which("g++") is None and shutil.which("cc") is None, "there is a compiler on PATH")
    expect("emulat" in run("doctor"), "memlake doctor names the emulator")
    try_pool()
    table = run("compare", SNAPSHOT, "--capacity", "64GiB")
    expect("use lake" in table and "out of memory at row 111153" in table, f"memlake compare prints\n{table}")
    said = run("emulate", "--devices", "2", "--memory", "1GiB", "--", sys.executable, "-c", CLIENT)
    expect(said == "2 devices\n", f"the program on the emulator prints {said!r}")
    print("works")


if __name__ == "__main__":
    main()
