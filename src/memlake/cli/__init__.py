"""The command line: ``memlake COMMAND``. One command per file.

Results go to stdout; errors and progress go to stderr. Bad input ends with exit code 2 and one sentence, Ctrl-C with
130. When the reader of a pipe closes stdout, the command ends without a message.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from memlake.cli import compare, convert, doctor, emulate, fit, replay
from memlake.errors import MemlakeError
from memlake.reports.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_COMMANDS = (compare, replay, fit, convert, emulate, doctor)

_BAD_INPUT = 2
_BY_SIGNAL = 128  # shells report this plus the number of the signal that ended a program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    try:
        code = _run(arguments)
        # Flushed here, where a closed pipe can be told apart from a failed command.
        sys.stdout.flush()
    except MemlakeError as error:
        print(f"memlake: error: {visible(str(error))}", file=sys.stderr)
        return _BAD_INPUT
    except BrokenPipeError:
        # stdout is closed; Python must not try to flush it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BY_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        print("memlake: interrupted", file=sys.stderr)
        return _BY_SIGNAL + signal.SIGINT
    return code


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help(sys.stderr)
        return _BAD_INPUT
    code: int = parsed.run(parsed)
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
