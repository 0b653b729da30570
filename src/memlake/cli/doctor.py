"""``memlake doctor``: does memlake work here, what does it find, what is missing?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memlake.cli.output import print_json
from memlake.cli.replay_arguments import add_json

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_to"]

_DESCRIPTION = """\
Looks at this machine: memlake's own libraries, the CUDA driver and its devices, installed frameworks (none is
imported), limits of the system that matter. Really tries the emulator.
"""

_EXAMPLE = """\
exit code: 0 if memlake works here (with or without a GPU), 1 if it does not
"""


def add_to(commands: _Commands) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser(
        "doctor",
        help="does memlake work here, and what is missing?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.reports.health import examine

    health = examine()
    if arguments.json:
        print_json(health.to_json())
    else:
        health.print()
    return 0 if health.is_good else 1
