"""The command line: ``memlake COMMAND``. One command per file.

Results go to stdout; errors and progress go to stderr. Bad input ends with exit code 2 and one sentence, and so does a
stdout that cannot be written to; Ctrl-C ends with 130. When the reader of a pipe closes stdout, the command ends
without a message.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from memlake.cli import advise, compare, convert, diff, doctor, emulate, fit, replay, report, show, sweep, top, torch
from memlake.cli.parser import Parser
from memlake.errors import MemlakeError
from memlake.tables.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "parser_of_all_commands"]

_COMMANDS = (show, report, compare, advise, diff, replay, fit, sweep, convert, top, torch, emulate, doctor)

_BAD_INPUT = 2
_BY_SIGNAL = 128  # shells report this plus the number of the signal that ended a program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    # Python has no stdout if its descriptor was closed before the program started.
    if sys.stdout is None:
        _complain("stdout is closed, so there is no place for the result; hint: run it with a stdout, such as > FILE")
        return _BAD_INPUT
    try:
        code = _run(arguments)
        # Flushed here, where a closed pipe can be told apart from a failed command.
        sys.stdout.flush()
    except MemlakeError as error:
        _complain(str(error))
        return _BAD_INPUT
    except BrokenPipeError:
        _give_up_stdout()
        return _BY_SIGNAL + signal.SIGPIPE
    except OSError as error:
        _give_up_stdout()
        what = "cannot write the result" if error.filename is None else f"cannot use {error.filename!r}"
        _complain(f"{what}: {error.strerror or error}; hint: is there room, and may you use it?")
        return _BAD_INPUT
    except KeyboardInterrupt:
        print("memlake: interrupted", file=sys.stderr)
        return _BY_SIGNAL + signal.SIGINT
    return code


def _complain(sentence: str) -> None:
    if sys.stderr is not None:
        print(f"memlake: error: {visible(sentence)}", file=sys.stderr)


def _give_up_stdout() -> None:
    """Makes stdout write to nowhere. What it still has in its buffer would make Python fail again at exit."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


def _run(arguments: Sequence[str] | None) -> int:
    parser = parser_of_all_commands()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help(sys.stderr)
        return _BAD_INPUT
    code: int = parsed.run(parsed)
    return code


def parser_of_all_commands() -> Parser:
    """Returns the parser of the command line, with every command in it."""
    parser = Parser(prog="memlake", description="GPU memory without fragmentation, and GPU memory code without a GPU.")
    parser.add_argument("--version", action="version", version=f"memlake {version('memlake')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
