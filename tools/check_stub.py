"""Checks that src/memlake/_native.pyi is the stub that nanobind's stubgen generates from the built module.

usage: python tools/check_stub.py [--write] [--stub FILE]
"""

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUB = HERE.parent / "src" / "memlake" / "_native.pyi"
ADDITIONS = HERE / "native_stub.pat"
MODULE = "memlake._native"


def generated() -> str:
    """Returns the stub of the module that is installed for this Python."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "_native.pyi"
        # It runs in another folder, so that it imports the installed package and not the source tree.
        stubgen = [
            sys.executable,
            "-m",
            "nanobind.stubgen",
            "-q",
            "-P",  # include private members, which memlake's Python code calls
            "-p",
            str(ADDITIONS),
            "-m",
            MODULE,
            "-o",
            str(output),
        ]
        subprocess.run(stubgen, check=True, cwd=folder)
        return output.read_text()


def difference(committed: str, built: str, name: str) -> str:
    """Returns the diff between the committed stub and the stub of the built module; empty if they are equal."""
    return "".join(
        difflib.unified_diff(
            committed.splitlines(keepends=True), built.splitlines(keepends=True), name, f"stubgen of {MODULE}"
        )
    )


def main() -> int:
    """Compares the stub with the built module, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the stub instead of comparing it")
    parser.add_argument("--stub", type=Path, default=STUB, help="the file to compare or to write")
    arguments = parser.parse_args()
    built = generated()
    if arguments.write:
        arguments.stub.write_text(built)
        return 0
    changes = difference(arguments.stub.read_text(), built, arguments.stub.name)
    if changes:
        print(changes, end="")
        print(f"{arguments.stub.name} does not say what the built module offers; if the change is meant: make stub")
    return 1 if changes else 0


if __name__ == "__main__":
    raise SystemExit(main())
