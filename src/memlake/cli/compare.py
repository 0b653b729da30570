"""``memlake compare TRACE``: which policy makes a job fit, and what each one costs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, Progress, give
from memlake.cli.replay_arguments import add_capacity, add_replays, use_given_costs
from memlake.cli.trace_argument import add_traces, job_of, load_trace

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Replays a trace under several policies, on an emulated device, without a GPU. Says for each whether the job fits,
what it would hold, where it would run out of memory and why, and what its driver calls would take on an A100.
For a folder or several files: one line per rank, and which policies fit on every rank.
"""

_EXAMPLE = """\
examples:
  memlake compare snapshot.pickle --capacity 80GiB
  memlake compare train_opt-13b_lora_offload --capacity 64GiB
  memlake compare snapshot.pickle --capacity 80GiB --policy caching --policy max_split_size_mb:128 --json
  memlake compare run/snapshots --capacity h100

exit code: 0 if any policy fits (on every rank), 1 if none does, 2 for bad input, also if one of several files cannot be
read, 3 if a file cannot decide it
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "compare",
        _run,
        help="would this job fit, and under which policy?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    add_capacity(parser)
    add_replays(parser)


def _run(arguments: argparse.Namespace) -> int:
    use_given_costs(arguments)
    from memlake.analysis import compare

    job = job_of(arguments)
    ask = partial(compare, load_trace(arguments)) if job is None else job.compare
    with Progress("replaying") as progress:
        comparison = ask(
            arguments.capacity,
            arguments.policies,
            events=arguments.events,
            limit=arguments.limit,
            reserve=arguments.reserve,
            progress=progress,
        )
    return give(comparison, arguments, EXIT_CODES[comparison.outcome], is_job=job is not None)
