"""``python -m memlake.torch train.py ARGUMENTS``: runs a program with memlake as PyTorch's allocator."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from memlake.errors import MemlakeError
from memlake.torch.startup import install_from_text

_BAD_INPUT = 2


def main() -> int:
    """Installs memlake, then runs the program in this process, as Python would."""
    parser = argparse.ArgumentParser(
        prog="python -m memlake.torch",
        description="Runs a program with memlake as PyTorch's CUDA allocator.",
        usage="python -m memlake.torch [--policy TEXT] (PROGRAM.py | -m MODULE) [ARGUMENTS ...]",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--policy", default="lake", metavar="TEXT", help='such as "lake,limit:90%%"; see memlake.policy (default: lake)'
    )
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    own, rest = _split(sys.argv[1:])
    arguments = parser.parse_args(own)
    if arguments.module is None and not rest:
        parser.error("name the program to run, such as train.py")
    try:
        install_from_text(arguments.policy)
    except MemlakeError as error:
        print(f"memlake: error: {error}", file=sys.stderr)
        return _BAD_INPUT
    if arguments.module is not None:
        sys.argv = [arguments.module, *rest]
        sys.path.insert(0, "")
        runpy.run_module(arguments.module, run_name="__main__", alter_sys=True)
        return 0
    program = Path(rest[0])
    if not program.exists():
        print(f"memlake: error: there is no program {rest[0]!r}", file=sys.stderr)
        return _BAD_INPUT
    sys.argv = rest
    sys.path[0] = str(program.parent.resolve())
    runpy.run_path(str(program), run_name="__main__")
    return 0


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    """Returns our own arguments, and the program with its arguments, or those of a module."""
    at = 0
    while at < len(given) and given[at].startswith("-"):
        if given[at] == "-m":
            return given[: at + 2], given[at + 2 :]
        at += 2 if given[at] == "--policy" else 1
    return given[:at], given[at:]


if __name__ == "__main__":
    sys.exit(main())
