"""Which source file of one job is which file of another: the folders around a program differ between machines.

The rules, the first that finds a file decides:

1. The same path. The folder of an installed package (``site-packages``), the folder of Python's own library and the
   process number in the path of a notebook's cell do not count.
2. The longest common end of the two paths, of at least the file and its folder. No other file may have that end. The
   name of an installed package must be in it.
3. The same file name alone, if no other file has it. This rule is not used for a file in a folder whose files were
   found by the rules before: ``decoder/layers.py`` is not ``encoder/layers.py`` of the same program.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Place", "match_files", "place_of", "text_of"]

Place = tuple[str, ...]
"""The parts of a path, without the folders that do not count."""

_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_PYTHON_LIBRARY = re.compile(r".*/lib(?:64)?/python\d[^/]*/")
_CELL = re.compile(r"/ipykernel_\d+/")
_LEAST_PARTS = 2
_MOST_PARTS = 40


def place_of(filename: str) -> Place:
    """Returns the parts of a path, without the folders that do not count."""
    path = _CELL.sub("/ipykernel/", filename.replace("\\", "/"))
    for pattern, name in ((_INSTALLED, "site-packages"), (_PYTHON_LIBRARY, "python")):
        path, count = pattern.subn(f"{name}:/", path, count=1)
        if count:
            break
    return tuple(part for part in path.split("/") if part not in ("", ".")) or ("/",)


def text_of(place: Place) -> str:
    """Returns a place as text."""
    return "/".join(place) if place and _is_installed(place) else "/" + "/".join(place)


def match_files(files_a: Iterable[Place], files_b: Iterable[Place]) -> dict[Place, Place]:
    """Returns for each file of A the file of B that it is; without the files that B does not have."""
    rest_a, rest_b = set(files_a), set(files_b)
    found: dict[Place, Place] = {place: place for place in rest_a & rest_b}
    # If a file of the program has not moved, the program has not.
    roots: set[tuple[Place, Place]] = {((), ()) for place in found if len(place) > 1 and not _is_installed(place)}
    rest_a, rest_b = rest_a - found.keys(), rest_b - found.keys()
    longest = min(max(map(len, rest_a | rest_b), default=0), _MOST_PARTS)
    for num_parts in range(longest, 0, -1):
        for one, other in _with_one_end(rest_a, rest_b, num_parts):
            if any(_is_installed(place) and num_parts < len(place) - 1 for place in (one, other)):
                continue
            if num_parts < _LEAST_PARTS and any(_is_in(one, left) or _is_in(other, right) for left, right in roots):
                continue
            found[one] = other
            rest_a.discard(one)
            rest_b.discard(other)
            if num_parts >= _LEAST_PARTS:
                roots.add((one[:-num_parts], other[:-num_parts]))
    return found


def _with_one_end(files_a: set[Place], files_b: set[Place], num_parts: int) -> list[tuple[Place, Place]]:
    """Returns the pairs of files whose paths end with the same parts, if no third file has that end."""
    ends: dict[Place, tuple[list[Place], list[Place]]] = defaultdict(lambda: ([], []))
    for number, files in enumerate((files_a, files_b)):
        for place in files:
            if len(place) >= num_parts:
                ends[place[-num_parts:]][number].append(place)
    return sorted((left[0], right[0]) for left, right in ends.values() if len(left) == len(right) == 1)


def _is_installed(place: Place) -> bool:
    return place[0].endswith(":")


def _is_in(place: Place, folder: Place) -> bool:
    return place[: len(folder)] == folder
