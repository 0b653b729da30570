"""``memlake show TRACE``: what is in a file, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import Progress, give
from memlake.cli.replay_arguments import add_json
from memlake.cli.trace_argument import add_traces, job_of, load_trace
from memlake.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Shows what a file tells about a job: the version and settings of PyTorch as far as they are known, how much of the job
is recorded, what was allocated and held, where the memory is that is held but not in use, why PyTorch ran out of memory
if it did, and what was live at the peak, by call site and by category. A figure that the file does not tell is
"unknown". For a folder or several files: one line per rank, the spread, and the rank that is worst off.
"""

_EXAMPLE = """\
examples:
  memlake show snapshot.pickle
  memlake show snapshot.pickle --capacity 80GiB --sites 30
  memlake show train_opt-13b_lora_offload --steps
  memlake show run/snapshots
  memlake show 'run/rank*.pickle' --json

exit code: 0, 2 for bad input, also if one of several files cannot be read
"""

_MOST_SITES = 100_000


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "show",
        _run,
        help="what is in a snapshot, and why did it run out of memory?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    parser.add_argument(
        "--capacity",
        metavar="SIZE",
        help="the memory of the whole device, as 80GiB, or the name of a GPU such as a100-80gb: tells memory outside "
        "PyTorch apart",
    )
    parser.add_argument(
        "--reserve",
        metavar="SIZE",
        help="what the CUDA context takes of it, which is not counted as taken by others (default: 512MiB)",
    )
    parser.add_argument(
        "--sites", metavar="N", default="10", help="how many call sites of the peak to print (default: %(default)s)"
    )
    parser.add_argument(
        "--steps",
        action="store_true",
        help="print the live peak of each step: as the file names them, or inferred from requests that repeat",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.analysis import overview

    choices = {"num_sites": _count(arguments.sites), "steps": arguments.steps}
    wanted = {
        "capacity": arguments.capacity,
        "reserve": arguments.reserve,
        "steps": arguments.steps or arguments.json,
    }
    if (job := job_of(arguments)) is not None:
        with Progress("reading") as progress:
            ranks = job.overview(**wanted, progress=progress)
        return give(ranks, arguments, is_job=True, **choices)
    trace = load_trace(arguments)
    with Progress("verifying"):
        found = overview(trace, **wanted)
    return give(found, arguments, **choices)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _MOST_SITES):
        raise ConfigError(f"--sites must be a number from 1 to {_MOST_SITES}, got {text[:60]!r}; hint: --sites 20")
    return int(text)
