"""Checks that the tables of docs/reference/policies.md are those that are generated from the core's registry.

usage: python tools/check_policies.py [--write] [--page FILE]
"""

import argparse
import re
from pathlib import Path

from memlake import _native
from memlake.policies import known_policies

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "policies.md"
BLOCK = re.compile(r"(<!-- made by `make policies`: ([\w ]+) -->\n).*?(\n?<!-- end -->)", re.DOTALL)


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in [headers, *rows]]
    return "\n".join([lines[0], "|---" * len(headers) + "|", *lines[1:]])


def code(text: str) -> str:
    """Returns the text as Markdown code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def policies() -> str:
    """Returns the table of policies, one line each."""
    classes = known_policies()
    rows = [
        [code(entry["name"]), code(classes[entry["name"]].__name__), entry["summary"]] for entry in _native.policies()
    ]
    return table(["name", "options", "description"], rows)


def capabilities() -> str:
    """Returns the table of the policies' capabilities."""
    entries = _native.policies()
    rows = [
        [code(name), meaning, *("yes" if entry["capabilities"][name] else "" for entry in entries)]
        for name, meaning in _native.capabilities().items()
    ]
    return table(["capability", "meaning", *(code(entry["name"]) for entry in entries)], rows)


def options_of(name: str) -> str:
    """Returns the table of the options of one policy, or of several policies with the same options."""
    first, *others = (known_policies()[one]._options() for one in name.split())
    assert all([option for option, _ in other] == [option for option, _ in first] for other in others), name
    rows = []
    for option, field in first:
        is_word = " " in option.default or option.default in ("off", "none")
        default = option.default if is_word else code(option.default)
        rows.append([code(option.key), code(field.name), option.value, default, option.help])
    return table(["key", "field", "value", "default", "effect"], rows)


def keys(kind: str) -> str:
    """Returns the table of the ignored or the refused keys, each with the reason."""
    reasons = {key: reason for entry in _native.policies() for key, reason in entry[kind].items()}
    return table(["key", "reason"], [[code(key), reason] for key, reason in reasons.items()])


def made(what: str) -> str:
    """Returns the text of one block of the page."""
    if what == "policies":
        return policies()
    if what == "capabilities":
        return capabilities()
    return keys(what) if what in ("ignored", "refused") else options_of(what)


def renewed(page: str) -> str:
    """Returns the page with all its blocks generated again."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{made(block[2])}\n{block[3]}", page)


def main() -> int:
    """Compares the page with the registry, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables instead of comparing them")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to compare or to write")
    arguments = parser.parse_args()
    committed = arguments.page.read_text()
    built = renewed(committed)
    if arguments.write:
        arguments.page.write_text(built)
        return 0
    shown = {name for _, names, _ in BLOCK.findall(committed) for name in names.split()}
    missing = [entry["name"] for entry in _native.policies() if entry["options"] and entry["name"] not in shown]
    if missing:
        print(f"{arguments.page.name} has no table of the options of: {', '.join(missing)}")
    if built != committed:
        print(f"{arguments.page.name} does not say what the core says about its policies; run: make policies")
    return 1 if missing or built != committed else 0


if __name__ == "__main__":
    raise SystemExit(main())
