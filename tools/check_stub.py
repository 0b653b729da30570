"""src/memlake/_native.pyi says what the built module offers: it is made by nanobind's stubgen and compared here.

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
    """The stub of the module that is installed beside this Python."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "_native.pyi"
        # Started elsewhere, so that the installed package is read and not the source tree.
        stubgen = [
            sys.executable,
            "-m",
            "nanobind.stubgen",
            "-q",
            "-P",  # what Python code of ours calls is private, too
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
    """What the built module offers and the stub does not say, and the reverse, as a diff; empty if they agree."""
    return "".join(
        difflib.unified_diff(
            committed.splitlines(keepends=True), built.splitlines(keepends=True), name, f"stubgen of {MODULE}"
        )
    )


def main() -> int:
    """Compares, or writes."""
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
