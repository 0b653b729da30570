"""``memlake convert TRACE OUT``: writes a trace to a file of another format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import Progress, print_json
from memlake.cli.output_file import refuse_to_replace
from memlake.cli.replay_arguments import add_json
from memlake.cli.trace_argument import add_trace, load_trace
from memlake.errors import ConfigError
from memlake.tables.terminal import print_text, visible
from memlake.units import format_bytes
from memlake.wording import plural

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Writes a trace to another file. The ending of its name selects the format: .npz keeps everything that memlake reads
from a snapshot and is far smaller; .pickle is a PyTorch snapshot, for PyTorch's viewer; .perfetto.json or
.perfetto.json.gz is for ui.perfetto.dev: live and held memory under each policy, and steps; .parquet, .csv, .txt and
.txt.gz are tables of the rows; .rmm.csv is a log of RMM. memlake reads all of these but Perfetto's. What a format
cannot hold is said on stderr.
"""

_EXAMPLE = """\
examples:
  memlake convert snapshot.pickle small.npz
  memlake convert snapshot.pickle public.npz --without-stacks
  memlake convert train_moe viewer.pickle
  memlake convert snapshot.pickle job.perfetto.json.gz --capacity 80GiB

exit code: 0 if the file was written, 2 for bad input
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "convert",
        _run,
        help="write a snapshot or trace as another format",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_trace(parser)
    parser.add_argument("out", metavar="OUT", help="the file to write, such as small.npz")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--without-stacks",
        action="store_true",
        help="leave out stacks and labels, whose file names may be private",
    )
    parser.add_argument(
        "--capacity",
        metavar="SIZE",
        help="for Perfetto: the memory of the device of the replays, as 80GiB, or the name of a GPU (default: what the "
        "trace gives or implies)",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.integrations.perfetto import is_perfetto_name, lost_in_perfetto, save_perfetto
    from memlake.trace.losses import NO_RECORD, NO_STACKS
    from memlake.trace.saving import check_name, lost_in

    out = Path(arguments.out)
    is_perfetto = is_perfetto_name(out)
    if not is_perfetto:
        try:
            check_name(out)
        except ConfigError as error:
            raise ConfigError(f"{error}, .perfetto.json, .perfetto.json.gz") from None
    if arguments.capacity is not None and not is_perfetto:
        raise ConfigError("--capacity is for Perfetto files, which have replays; hint: leave it out for other formats")
    refuse_to_replace(arguments.out, arguments.force, "small.npz")
    trace = load_trace(arguments)
    # Another program may have made the file while the trace was loaded.
    refuse_to_replace(arguments.out, arguments.force, "small.npz")
    if arguments.without_stacks:
        trace = trace.without_context()
    try:
        with Progress(f"writing {out.name}"):
            if is_perfetto:
                save_perfetto(trace, out, arguments.capacity)
            else:
                trace.save(out)
    except OSError as error:
        raise ConfigError(
            f"cannot write {arguments.out!r}: {error.strerror or error}; hint: choose a folder that you may write to "
            "and that has room"
        ) from None
    lost = lost_in_perfetto(trace) if is_perfetto else lost_in(trace, out)
    for what in lost:
        print(f"memlake: note: {visible(out.name)} {what}", file=sys.stderr)
    nbytes = out.stat().st_size
    num_stacks = 0 if trace.context is None or NO_STACKS in lost else len(trace.context.stacks) - 1
    if arguments.json:
        print_json(
            {
                "trace": arguments.trace,
                "out": arguments.out,
                "bytes": nbytes,
                "rows": len(trace),
                "stacks": num_stacks,
                "recorded": trace.recorded is not None and NO_RECORD not in lost and not is_perfetto,
                "lost": lost,
            }
        )
    else:
        rows = f"{len(trace):,} {plural(len(trace), 'row')}"
        stacks = f", {num_stacks:,} {plural(num_stacks, 'stack')}" if num_stacks else ""
        print_text(f"Wrote {arguments.out}: {format_bytes(nbytes)}, {rows}{stacks}.")
    return 0
