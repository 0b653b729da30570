"""The labels of ranks: their numbers where the names of the files tell them, else the names."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

from memlake.jobs.files import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RankFile", "labelled", "missing_numbers", "natural_key", "repeated_numbers"]

_RANK = re.compile(r"(?<![a-z])(?:global[ _-]?)?rank[ _.=-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"^(.*?)(\d{1,6})(\D*)$", re.DOTALL)
_BREAKS = "_-.= /"


@dataclass(frozen=True)
class RankFile:
    """The file of one rank.

    Attributes:
        path: the file.
        label: its name in tables, different for each file of a job: the number of the rank, if the names tell it.
        number: the number of the rank; None if it is not known.
    """

    path: str
    label: str
    number: int | None = None

    @property
    def title(self) -> str:
        """``"rank 3"``, or the label if the number is not known."""
        return self.label if self.number is None else f"rank {self.label}"


def labelled(paths: Sequence[str]) -> tuple[tuple[RankFile, ...], str]:
    """Returns the files with labels, in the order of their ranks, and how the ranks are known; empty if they are not.

    A number after the word "rank" in the name of the file, or else of one of its folders, is the number of the rank.
    Without that word, names that differ only in their last number, which counts from 0 without a gap, are numbered by
    it. Several files of one rank get what else differs in their names as a second part of the label. In all other
    cases the labels are the names of the files.
    """
    names = _names(paths)
    numbers = [_number(path) for path in paths]
    how = 'the numbers after "rank" in the names of the files'
    if all(number is None for number in numbers):
        numbers, how = _counted(names), "the last numbers in the names of the files, which count from 0"
    if not numbers or any(number is None for number in numbers):
        files = [RankFile(path, name) for path, name in zip(paths, names, strict=True)]
        return tuple(sorted(files, key=lambda file: (natural_key(file.label), file.path))), ""
    labels = [str(number) for number in numbers]
    if len(set(labels)) < len(labels):
        rests = _differing([_RANK.sub("", name) for name in names])
        labels = [f"{label} ({rest})" if rest else label for label, rest in zip(labels, rests, strict=True)]
        if len(set(labels)) < len(labels):
            labels = names
    files = [RankFile(path, label, number) for path, label, number in zip(paths, labels, numbers, strict=True)]
    return tuple(sorted(files, key=lambda file: (file.number or 0, natural_key(file.label), file.path))), how


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Returns a key that sorts numbers in texts by their values: ``"rank10"`` comes after ``"rank9"``."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part[:4000]), part) if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts)


def _names(paths: Sequence[str]) -> list[str]:
    """Returns the shortest ends of the paths that all differ, without the ending of the files if they still differ."""
    parts = [PurePath(path).parts for path in paths]
    depth = next(
        (depth for depth in range(1, 8) if len({part[-depth:] for part in parts}) == len(paths)), max(map(len, parts))
    )
    names = [os.path.join(*part[-depth:]) for part in parts]  # noqa: PTH118  a part may be a root
    short = [_without_ending(name) for name in names]
    return short if len(set(short)) == len(short) else names


def _without_ending(name: str) -> str:
    ending = next((one for one in ENDINGS if name.lower().endswith(one) and len(name) > len(one)), "")
    return name[: len(name) - len(ending)]


def _number(path: str) -> int | None:
    """Returns the number after the word "rank" in the name or else in the nearest folder; None without one, or two."""
    for part in reversed(PurePath(path).parts):
        if found := _RANK.findall(part):
            return int(found[0]) if len(found) == 1 else None
    return None


def _counted(names: Sequence[str]) -> list[int | None]:
    """Returns the last numbers of names that differ in nothing else, if they count from 0; else an empty list."""
    matches = [_LAST_NUMBER.match(name) for name in names]
    if len(names) < 2 or not all(matches) or any(map(_RANK.search, names)):
        return []
    found = [match for match in matches if match]
    if len({(match[1], match[3]) for match in found}) > 1:
        return []
    numbers: list[int | None] = [int(match[2]) for match in found]
    return numbers if set(numbers) == set(range(len(numbers))) else []


def _differing(names: Sequence[str]) -> list[str]:
    """Returns the parts of the names without what all of them begin and end with, cut at `_BREAKS`."""
    start = _before_break(_common_start(names))
    if any(name[len(start) : len(start) + 1].isdecimal() for name in names):
        start = _before_break(start.rstrip(_BREAKS))  # "iteration_2" says more than "2"
    rests = [name[len(start) :] for name in names]
    end = _common_start([rest[::-1] for rest in rests])[::-1]
    cut = min((place for letter in _BREAKS if (place := end.find(letter)) >= 0), default=len(end))
    end = end[cut:]
    return [rest[: len(rest) - len(end)].strip(_BREAKS) for rest in rests]


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    number = next(
        (place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:number]


def _before_break(text: str) -> str:
    return text[: max(text.rfind(letter) for letter in _BREAKS) + 1]


def repeated_numbers(files: Sequence[RankFile]) -> dict[int, int]:
    """Returns the ranks that have more than one file, with the number of their files."""
    counts = Counter(file.number for file in files if file.number is not None)
    return {number: count for number, count in sorted(counts.items()) if count > 1}


def missing_numbers(files: Sequence[RankFile]) -> list[int]:
    """Returns the numbers between the lowest and the highest rank that have no file, at most 1000."""
    numbers = sorted({file.number for file in files if file.number is not None})
    found: list[int] = []
    for one, following in pairwise([-1, *numbers]):
        found += range(one + 1, min(following, one + 1000))
    return found[:1000]
