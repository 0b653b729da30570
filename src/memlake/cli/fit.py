"""``memlake fit TRACE``: the smallest device that each policy needs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, Progress, give
from memlake.cli.replay_arguments import add_replays, use_given_costs
from memlake.cli.trace_argument import add_traces, job_of, load_trace

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Finds the smallest device on which a trace runs under each policy: by bisection from the live peak to 2.2 times it, to
0.1 % of the live peak, without a GPU. For a folder or several files: one line per rank, and the smallest device that
serves every rank.
"""

_EXAMPLE = """\
examples:
  memlake fit snapshot.pickle
  memlake fit train_opt-13b_lora_offload --policy caching --policy expandable --json
  memlake fit 'run/rank*.pickle'

exit code: 0, 2 for bad input, also if one of several files cannot be read, 3 if a file cannot decide it: a size with
"at least" in front of it is then no promise that the job fits
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "fit",
        _run,
        help="how small may the device be?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    add_replays(parser)


def _run(arguments: argparse.Namespace) -> int:
    use_given_costs(arguments)
    from memlake.analysis import fit

    job = job_of(arguments)
    ask = partial(fit, load_trace(arguments)) if job is None else job.fit
    with Progress("searching") as progress:
        found = ask(arguments.policies, events=arguments.events, progress=progress)
    return give(found, arguments, EXIT_CODES[found.outcome], is_job=job is not None)
