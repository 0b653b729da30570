"""``memlake convert TRACE OUT``: writes a trace to a file of another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.cli.output import Progress, print_json
from memlake.cli.output_file import refuse_to_replace
from memlake.cli.replay_arguments import add_json
from memlake.cli.trace_argument import add_trace, load_trace
from memlake.errors import ConfigError
from memlake.reports.terminal import print_text
from memlake.units import format_bytes

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_to"]

_DESCRIPTION = """\
Writes a trace to another file. The ending of its name selects the format. An .npz file is far smaller than a snapshot
and keeps everything that memlake reads from it: stacks, labels, annotations, settings, and the segments and blocks that
PyTorch recorded. Text (.txt, .txt.gz) keeps the rows only; .parquet is for other programs.
"""

_EXAMPLE = """\
examples:
  memlake convert snapshot.pickle small.npz
  memlake convert snapshot.pickle small.npz --without-stacks

exit code: 0 if the file was written, 2 for bad input
"""


def add_to(commands: _Commands) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser(
        "convert",
        help="write a snapshot or trace to a small file",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trace(parser)
    parser.add_argument("out", metavar="OUT", help="the file to write, such as small.npz")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--without-stacks",
        action="store_true",
        help="leave out stacks and labels, whose file names may be private",
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.trace.saving import check_name

    out = Path(arguments.out)
    check_name(out)
    refuse_to_replace(arguments.out, arguments.force, "small.npz")
    trace = load_trace(arguments)
    # Another program may have made the file while the trace was loaded.
    refuse_to_replace(arguments.out, arguments.force, "small.npz")
    if arguments.without_stacks:
        trace = trace.without_context()
    try:
        with Progress(f"writing {out.name}"):
            trace.save(out)
    except OSError as error:
        raise ConfigError(f"cannot write {arguments.out!r}: {error.strerror or error}") from None
    nbytes = out.stat().st_size
    num_stacks = 0 if trace.context is None else len(trace.context.stacks) - 1
    if arguments.json:
        print_json(
            {
                "trace": arguments.trace,
                "out": arguments.out,
                "bytes": nbytes,
                "rows": len(trace),
                "stacks": num_stacks,
                "recorded": trace.recorded is not None,
            }
        )
    else:
        print_text(f"Wrote {arguments.out}: {format_bytes(nbytes)}, {len(trace):,} rows, {num_stacks:,} stacks.")
    return 0
