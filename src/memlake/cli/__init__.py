"""The command line: ``memlake COMMAND``. One command per file.

stdout is data, stderr is talk. Bad input ends with exit code 2 and one sentence.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from memlake.cli import emulate
from memlake.errors import MemlakeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_COMMANDS = (emulate,)

_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help(sys.stderr)
        return _BAD_INPUT
    try:
        code: int = parsed.run(parsed)
    except MemlakeError as error:
        print(f"memlake: error: {error}", file=sys.stderr)
        return _BAD_INPUT
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memlake", description="GPU memory without fragmentation, and GPU memory code without a GPU."
    )
    parser.add_argument("--version", action="version", version=f"memlake {version('memlake')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
