"""``memlake advise TRACE``: which settings of PyTorch make a job fit, or let it hold less."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, Progress, give
from memlake.cli.replay_arguments import add_capacity, add_events, add_json
from memlake.cli.trace_argument import add_traces, job_of, load_trace

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Searches PyTorch's settings for a job, without a GPU: replays a bounded list of them on a device of a given size. Prints
what the job holds beyond what is live, one recommendation and at most three alternatives, each with its gain, its price
and the line to paste. For a folder or several files: one setting that holds for every rank.
"""

_EXAMPLE = """\
examples:
  memlake advise snapshot.pickle
  memlake advise snapshot.pickle --capacity a100-40gb --needs ipc
  memlake advise train_opt-13b_lora_offload --capacity 64GiB --json
  memlake advise run/snapshots --capacity 80GiB

exit code: 0 if PyTorch can run the job (every rank with one setting) on the device, 1 if no tried setting lets it, 2
for bad input, also if one of several files cannot be read, 3 if a file cannot decide it
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "advise",
        _run,
        help="which settings of PyTorch should this job use?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    add_capacity(parser)
    parser.add_argument(
        "--needs",
        metavar="WHAT",
        action="append",
        default=[],
        help="what the job needs beside memory: ipc, nccl-registration, cuda-graphs or wsl; settings that are known to "
        "break it are ruled out; repeatable",
    )
    add_events(parser)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.analysis import advise
    from memlake.analysis.needs import chosen_needs

    chosen_needs(arguments.needs)  # a misspelt need is reported before a large file is read
    job = job_of(arguments)
    ask = partial(advise, load_trace(arguments)) if job is None else job.advise
    with Progress("replaying") as progress:
        advice = ask(
            arguments.capacity,
            needs=arguments.needs,
            events=arguments.events,
            limit=arguments.limit,
            reserve=arguments.reserve,
            progress=progress,
        )
    return give(advice, arguments, EXIT_CODES[advice.outcome], is_job=job is not None)
