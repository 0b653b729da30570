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
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args(_own(sys.argv[1:]))
    rest = _rest(sys.argv[1:])
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


def _split(given: list[str]) -> int:
    """The position behind the last of our own arguments: the program's begin there."""
    at = 0
    while at < len(given):
        word = given[at]
        if word == "-m":
            return min(at + 2, len(given))
        if word == "--policy":
            at += 2
        elif word.startswith("-"):
            at += 1
        else:
            return at
    return at


def _own(given: list[str]) -> list[str]:
    return given[: _split(given)]


def _rest(given: list[str]) -> list[str]:
    return given[_split(given) :]


if __name__ == "__main__":
    sys.exit(main())
