"""``memlake sweep``: many files under many settings, on the cores of this machine or on a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import EXIT_CODES, Progress, give
from memlake.cli.output_file import refuse_to_replace
from memlake.cli.replay_arguments import add_events, add_json
from memlake.cli.trace_argument import add_traces, device_of
from memlake.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_RESULTS = "memlake_sweep.jsonl"

_DESCRIPTION = """\
Replays every file under every policy on every device, without a GPU, and says which one setting serves all files and
which file is the worst. Results are appended to a results file as they come: after Ctrl-C or a crash, the same command
goes on from there. A result is known by the content of its file and by its settings, so nothing is computed twice.
"""

_EXAMPLE = """\
examples:
  memlake sweep run/snapshots --capacities 40GiB 80GiB
  memlake sweep 'run/rank*.pickle' --capacities a100-40gb h100 --policies lake caching expandable_segments:True
  memlake sweep run/snapshots --capacities 80GiB --output sweep.parquet
  memlake sweep run/snapshots --capacities 80GiB --engine dask --address tcp://head:8786
  memlake sweep run/snapshots --capacities 80GiB --engine ray --address head:6379

exit code: 0 if one setting serves every file, 1 if none does, 2 for bad input, also if one of several files cannot be
read, 3 if a file cannot decide it
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "sweep",
        _run,
        help="which one setting serves hundreds of files? Also on a cluster",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    parser.add_argument(
        "--capacities",
        metavar="SIZE",
        nargs="+",
        action="extend",
        required=True,
        help="the devices: their memory in bytes or as 80GiB, or names of GPUs such as a100-80gb",
    )
    parser.add_argument(
        "--policies",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="policies, with options behind them (stitch,frag_limit:64MiB), or values of PYTORCH_ALLOC_CONF (default: "
        "every policy whose figures are not approximate)",
    )
    parser.add_argument(
        "--reserve",
        metavar="SIZE",
        help="what to subtract from the memory of a named GPU for the CUDA context (default: 512MiB)",
    )
    parser.add_argument(
        "--limit", metavar="SIZE", help="the most that a policy may hold, as a size or 90%% of the capacity"
    )
    add_events(parser)
    parser.add_argument(
        "--engine",
        default="local",
        choices=("local", "dask", "ray"),
        help="what does the work: the cores of this machine, or a cluster (default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="the cluster: tcp://host:8786 or a scheduler file for dask, host:6379 or ray://host:10001 for ray",
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        default=_RESULTS,
        help="the file to which results are appended as they come (default: %(default)s)",
    )
    parser.add_argument("--output", metavar="FILE", help="also write all results as a table: FILE.csv or FILE.parquet")
    parser.add_argument("--force", action="store_true", help="replace the file of --output if it exists")
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.sweeping import sweep
    from memlake.sweeping.table import check_table, save_table

    if arguments.output is not None:
        check_table(arguments.output)
        refuse_to_replace(arguments.output, arguments.force, "sweep.csv")
    with Progress("sweeping") as progress:
        found = sweep(
            arguments.traces,
            arguments.capacities,
            arguments.policies,
            events=arguments.events,
            limit=arguments.limit,
            reserve=arguments.reserve,
            device=device_of(arguments),
            engine=arguments.engine,
            address=arguments.address,
            results=arguments.results,
            progress=progress,
        )
    if arguments.output is not None:
        try:
            save_table(found, arguments.output)
        except OSError as error:
            raise ConfigError(
                f"cannot write {arguments.output!r}: {error.strerror or error}; hint: name a file elsewhere and run "
                f"the same sweep again, its results are in {arguments.results!r}"
            ) from None
        print(f"memlake: wrote {arguments.output}", file=sys.stderr)
    return give(found, arguments, EXIT_CODES[found.outcome], is_job=True)
