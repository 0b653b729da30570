"""What a command prints, compared with what a document shows of it."""

from __future__ import annotations

import re


def without_cpu_time(text: str) -> str:
    """The text without the last column of a comparison, which differs from run to run, and without its width."""
    if "ns/row" not in text:
        return text
    lines = [re.sub(r"(?<=[\d.-]) +\d+$| +ns/row$", "", line) for line in text.splitlines()]
    return "\n".join(re.sub(r"-{2,}", "--", re.sub(r" {2,}", "  ", line)) for line in lines)


def assert_printed(expected: str, actual: str) -> None:
    """Checks that a text has all lines of another one in order; a line of three dots stands for any lines."""
    place = 0
    parts = [part.strip("\n") for part in re.split(r"^\.\.\.$", without_cpu_time(expected), flags=re.MULTILINE)]
    assert any(parts)
    actual = without_cpu_time(actual)
    for part in parts:
        assert part in actual[place:]
        place = actual.index(part, place) + len(part)
    if parts[0]:
        assert actual.startswith(parts[0])
    if parts[-1]:
        assert actual.rstrip("\n").endswith(parts[-1])
