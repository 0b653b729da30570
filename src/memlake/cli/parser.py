"""The parser of the command line: argparse without abbreviations, and with suggestions for misspelt names."""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from typing import Any, NoReturn

__all__ = ["Parser"]


class Parser(argparse.ArgumentParser):
    """An argument parser that accepts options only by their full names, and suggests a name for a misspelt one.

    An abbreviation that works today would mean something else, or nothing, once another option is added.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses the arguments. An unknown option is an error of the command that it was given to."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = getattr(parsed, "parser", self)
            command.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse. The parser of the command is kept, so that errors can name its options."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if not hasattr(parsed, "parser"):
            parsed.parser = self
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the error, with a suggestion, and ends the program with 2."""
        super().error(message + self._suggestion(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores that a file cannot be written to, and the program would end with 0.
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)
            stream.flush()

    def _suggestion(self, message: str) -> str:
        if match := re.search(r"invalid choice: '([^']*)'", message):
            commands = [name for action in self._actions for name in action.choices or ()]
            return _did_you_mean(match[1], commands)
        if message.startswith("unrecognized arguments: "):
            given = next((word for word in message.split()[2:] if word.startswith("-")), "")
            options = [name for name in self._option_string_actions if name.startswith("--")]
            return _did_you_mean(given.partition("=")[0], options)
        return ""


def _did_you_mean(given: str, known: list[str]) -> str:
    whole = [name for name in known if len(given) > 2 and name.startswith(given)]
    close = whole or get_close_matches(given, known, 1)
    return f"; did you mean {close[0]}?" if close else ""
