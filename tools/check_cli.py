"""Checks that docs/reference/cli.md is what is generated from the parsers of the commands.

usage: python tools/check_cli.py [--write] [--page FILE]

The page does not use argparse's own usage and help texts: they depend on the version of Python and on the terminal.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.cli import parser_of_all_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
HEAD = """\
# Commands

<!-- made by `make cli` from the parsers of the commands -->

`memlake COMMAND --help` prints the same. `memlake --version` prints the version. Results go to stdout, errors and
progress to stderr. Bad input ends with exit code 2 and one sentence, Ctrl-C with 130. [Every printed
number](printed_numbers.md) explains the tables, [JSON output](replay_json.md) the keys of `--json`.
"""


def commands_of(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Returns the parsers of the commands of a parser by their names, each with its line of help."""
    found: dict[str, tuple[argparse.ArgumentParser, str]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found |= {name: (command, lines.get(name, "")) for name, command in action.choices.items()}
    return found


def values_of(action: argparse.Action) -> str:
    """Returns the words that stand for the values of an argument."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.metavar or action.dest.upper()


def invocation(action: argparse.Action) -> str:
    """Returns how an argument is written on the command line."""
    values = values_of(action)
    if action.option_strings:
        return " ".join(filter(None, [", ".join(action.option_strings), values]))
    return {"+": f"{values} [{values} ...]", "?": f"[{values}]"}.get(str(action.nargs), values)


def meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Returns the help text of an argument, with its default filled in."""
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return " ".join(text.replace("|", "\\|").split())


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the rows of the table of a command's arguments."""
    yield "| argument | meaning |"
    yield "|---|---|"
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            yield f"| `{invocation(action)}` | {meaning(parser, action)} |"


def paragraphs(text: str) -> str:
    """Returns a text for a terminal as Markdown. Lines that are indented or aligned stay as they are."""
    parts = []
    for part in text.strip().split("\n\n"):
        is_aligned = re.search(r"^\s|\S {2,}\S", part, re.MULTILINE)
        parts.append(f"```\n{part}\n```" if is_aligned else part)
    return "\n\n".join(parts)


def epilog(text: str) -> str:
    """Returns the end of a help text as Markdown: its examples as a block that the tests run."""
    parts = []
    for part in text.strip().split("\n\n"):
        first, _, rest = part.partition("\n")
        if first in ("examples:", "example:"):
            lines = "\n".join(line.strip() for line in rest.splitlines())
            parts.append(f"```sh\n{lines}\n```")
        else:
            parts.append(re.sub(r"^exit code:", "**Exit code:**", part))
    return "\n\n".join(parts)


def made(parser: argparse.ArgumentParser) -> str:
    """Returns the whole page."""
    commands = commands_of(parser)
    page = [HEAD, "| command | question |\n|---|---|"]
    page[-1] += "".join(f"\n| [`memlake {name}`](#memlake-{name}) | {line} |" for name, (_, line) in commands.items())
    for name, (command, _) in commands.items():
        page += ["", f"## `memlake {name}`", "", paragraphs(command.description or ""), ""]
        page += [*arguments_of(command)]
        if command.epilog:
            page += ["", epilog(command.epilog)]
    return "\n".join(page) + "\n"


def main() -> int:
    """Compares the page with the parsers, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page instead of comparing it")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to compare or to write")
    arguments = parser.parse_args()
    page = made(parser_of_all_commands())
    if arguments.write:
        arguments.page.write_text(page)
        return 0
    if arguments.page.read_text() != page:
        print(f"{arguments.page.name} does not say what the commands say in their help; run: make cli")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
