"""Writes lists in the form that Python-Markdown reads as the repository's host does: after an empty line."""

from __future__ import annotations

import re

ITEM = re.compile(r"^(\s*)([-*]|\d+\.)\s")


def separated(markdown: str) -> str:
    """Returns the text with an empty line between a paragraph and a list below it. Code stays as it is."""
    lines: list[str] = []
    is_fenced = False
    for line in markdown.splitlines():
        if re.match(r"^\s*(```|~~~)", line):
            is_fenced = not is_fenced
        before = lines[-1] if lines else ""
        is_paragraph = bool(before.strip()) and not ITEM.match(before) and not before.startswith((" ", "#", "|", "<"))
        if not is_fenced and ITEM.match(line) and not line.startswith(" ") and is_paragraph:
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"
