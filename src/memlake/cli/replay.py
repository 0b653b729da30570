"""``memlake replay TRACE``: one policy, one device, all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, Progress, give
from memlake.cli.replay_arguments import (
    add_capacity,
    add_costs,
    add_events,
    add_json,
    add_policy,
    use_given_costs,
)
from memlake.cli.trace_argument import add_trace, load_trace
from memlake.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Replays a trace under one policy, on an emulated device, without a GPU, and prints all figures.
"""

_EXAMPLE = """\
examples:
  memlake replay snapshot.pickle --policy expandable --capacity 80GiB
  memlake replay train_moe --policy stitch,frag_limit:64MiB --capacity 60GiB --timeline 20

exit code: 0 if it fits, 1 if it runs out of memory, 2 for bad input, 3 if the file cannot decide it
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "replay",
        _run,
        help="run a trace under one policy",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_trace(parser)
    add_capacity(parser)
    add_policy(parser)
    add_events(parser)
    parser.add_argument("--go-on", action="store_true", help="skip a request that finds no memory, and continue")
    parser.add_argument("--timeline", metavar="N", default="0", help="also show the held memory, in N samples")
    add_costs(parser)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    use_given_costs(arguments)
    from memlake.replaying import replay

    samples = _samples(arguments.timeline)
    trace = load_trace(arguments)
    with Progress("replaying"):
        result = replay(
            trace,
            arguments.policy,
            arguments.capacity,
            events=arguments.events,
            limit=arguments.limit,
            reserve=arguments.reserve,
            go_on=arguments.go_on,
            timeline=samples,
        )
    return give(result, arguments, EXIT_CODES[result.outcome])


def _samples(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ConfigError(
            f"--timeline must be a whole number of samples, at most 7 digits, got {text[:60]!r}; hint: --timeline 100"
        )
    return int(text)
