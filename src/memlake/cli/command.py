"""A command of the command line: its name, its help and the function that runs it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_command"]


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    """Adds a command, and returns its parser for the command's own arguments.

    Args:
        commands: the commands of the command line.
        name: the name of the command.
        run: the function that runs the command; it gets the arguments and returns the exit code.
        help: the line about the command in the list of all commands.
        description: what the command does; printed as it is.
        epilog: examples and exit codes; printed as they are.
    """
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser
