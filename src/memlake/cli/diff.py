"""``memlake diff A B``: what grew between two snapshots, or between two steps of one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, give
from memlake.cli.replay_arguments import add_json
from memlake.cli.trace_argument import load_trace
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake.cli.command import Commands
    from memlake.trace import Trace

__all__ = ["add_to"]

_DESCRIPTION = """\
Shows what grew between two snapshots, or between two steps of one: peak against peak and end against end, by call site
and by category, and the settings that differ. Call sites are found again if their lines have moved or their files are
in another folder. With --never-freed it lists what one job allocated while it was recorded and did not free.
"""

_EXAMPLE = """\
examples:
  memlake diff before.pickle after.pickle
  memlake diff snapshot.pickle --steps 3 7
  memlake diff snapshot.pickle --never-freed

exit code: 0, 2 for bad input, 3 if --never-freed is given and the file has no history
"""

_MOST_SITES = 100_000


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "diff",
        _run,
        help="what grew between two snapshots, or two steps, and what was never freed?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    parser.add_argument("a", metavar="A", help="a snapshot, or any other TRACE that memlake show takes")
    parser.add_argument("b", metavar="B", nargs="?", help="the later one; leave it out with --steps and --never-freed")
    parser.add_argument("--steps", metavar=("N", "M"), nargs=2, help="compare two steps of A, by their numbers")
    parser.add_argument(
        "--never-freed",
        action="store_true",
        help="list what was allocated in the history of A and not freed at its end",
    )
    parser.add_argument(
        "--device",
        metavar="N[,M]",
        help="which device of the snapshots; N,M takes device N of A and M of B (default: the one with most events)",
    )
    parser.add_argument(
        "--sites",
        metavar="N",
        default="10",
        help="how many call sites that grew, and that shrank, to print (default: %(default)s)",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.analysis import diff, never_freed

    num_sites = _count("--sites", arguments.sites, 1, _MOST_SITES)
    steps = None if arguments.steps is None else [_count("--steps", text, 0, 10**9 - 1) for text in arguments.steps]
    _check_forms(arguments)
    devices = _devices(arguments.device)
    arguments.trace = arguments.a
    first = _load(arguments.a, devices[0])
    if arguments.never_freed:
        left = never_freed(first)
        code = 0 if left.is_known else EXIT_CODES["unknown"]
        return give(left, arguments, code, num_sites=num_sites)
    if steps is not None:
        found = diff(first, steps=(steps[0], steps[1]))
        names = [f"{side.name} of {arguments.a}" for side in (found.a, found.b)]
    else:
        found = diff(first, _load(arguments.b, devices[1]), any_device=arguments.device is not None)
        names = [arguments.a, arguments.b]
    found = replace(found, a=replace(found.a, name=names[0]), b=replace(found.b, name=names[1]))
    return give(found, arguments, num_sites=num_sites)


def _check_forms(arguments: argparse.Namespace) -> None:
    """Refuses arguments that name too little or too much to compare."""
    alone = [
        name for name, is_given in (("--steps", arguments.steps), ("--never-freed", arguments.never_freed)) if is_given
    ]
    if len(alone) > 1:
        raise ConfigError("--steps and --never-freed are two questions; hint: ask one at a time")
    if alone and arguments.b is not None:
        raise ConfigError(f"{alone[0]} is about one file; hint: leave {arguments.b[:80]!r} or {alone[0]} out")
    if not alone and arguments.b is None:
        raise ConfigError(
            "one file has nothing to be compared with; give a second file, --steps 3 7 for two steps of it, or "
            "--never-freed for what it did not free"
        )


def _load(name: str, device: str | None) -> Trace:
    """Loads a trace. A file that has no other device than the wanted one needs no choice."""
    trace = load_trace(argparse.Namespace(trace=name, device=None))
    if device is None or str(trace.metadata.get("device")) == device:
        return trace
    return load_trace(argparse.Namespace(trace=name, device=device))


def _devices(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    parts = text.split(",")
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) <= 6 for part in parts):
        raise ConfigError(f"--device must be a device's number, or two, got {text[:60]!r}; hint: --device 0,1")
    numbers = [str(int(part)) for part in parts]
    return numbers[0], numbers[-1]


def _count(option: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise ConfigError(
            f"{option} must be a number from {least} to {most}, got {text[:60]!r}; hint: {option} {least}"
        )
    return int(text)
