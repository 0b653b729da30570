"""The flame graph of a peak: what was live, as a tree of the functions that called each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.call_sites import BEFORE, call_site_of, is_in_torch, is_python
from memlake.trace.live_set import site_of_tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.trace import Frame, Trace
    from memlake.trace.live_set import LiveSet

__all__ = ["flame_of"]

_SMALLEST = 1 / 4000
"""Functions with a smaller share of the peak are joined: on a screen they would be narrower than a pixel."""
_LONGEST = 300
_EARLIER = -1
"""Stands for the stack of an allocation from before the recording, which has none."""
_DEEPEST = 200
_MOST_NODES = 20_000
"""A forged file may have a million different stacks."""


@dataclass
class _Node:
    """A function in the tree: the bytes below it, the number of allocations, and the functions that it calls."""

    name: str
    file: str = ""
    kind: str = ""
    nbytes: int = 0
    count: int = 0
    below: dict[tuple[str, str], _Node] = field(default_factory=dict)


def flame_of(trace: Trace, live: LiveSet, *, only_python: bool) -> dict[str, list[Any]]:
    """Returns the tree of what was live as columns, each node after its parent and the largest child first.

    Args:
        trace: the trace.
        live: what was live.
        only_python: whether to leave out the frames of C++. A stack without frames of Python is its call site.

    Returns:
        The columns name, file, kind ("program", "torch", "native" or ""), parent (-1 for the root), bytes and count.
    """
    root = _Node("all")
    keys, places = _keys(trace, live)
    sizes = np.bincount(places, live.sizes.astype(np.float64), len(keys))
    counts = np.bincount(places, minlength=len(keys))
    for key, nbytes, count in zip(keys, sizes.tolist(), counts.tolist(), strict=True):
        _add(root, _path(trace, key, only_python), int(nbytes), count)
    columns: dict[str, list[Any]] = {name: [] for name in ("name", "file", "kind", "parent", "bytes", "count")}
    _write(root, columns, max(root.nbytes * _SMALLEST, 1))
    return columns


def _keys(trace: Trace, live: LiveSet) -> tuple[list[int], Any]:
    """Returns the different stacks or tags of what was live, and the place of each allocation among them."""
    of_row = trace.tag if trace.context is None else trace.context.stack
    keys = of_row[live.born].astype(np.int64)
    if trace.context is not None:
        keys[(keys == 0) & (live.born < trace.num_carried)] = _EARLIER
    kinds, places = np.unique(keys, return_inverse=True)
    return kinds.tolist(), places.reshape(-1)


def _path(trace: Trace, key: int, only_python: bool) -> list[tuple[str, str, str]]:
    """Returns name, file and kind of each function from the outermost inwards."""
    if trace.context is None:
        site = site_of_tag(trace.tags[key] if trace.tags else "")
        return [(site.text, "", "program" if site.rule == "tag" else "")]
    if key == _EARLIER:
        return [(BEFORE, "", "")]
    frames: Sequence[Frame] = trace.context.stacks[key]
    python = [frame for frame in frames if is_python(frame)]
    if only_python and python:
        frames = python
    elif only_python and frames:
        return [(call_site_of(frames).text, "", "native")]
    path = [_described(frame) for frame in reversed(frames[:_DEEPEST])]
    return path or [("(no stack recorded)", "", "")]


def _described(frame: Frame) -> tuple[str, str, str]:
    name = frame.name[:_LONGEST] or "??"
    if not is_python(frame):
        return name, "", "native"
    kind = "torch" if is_in_torch(frame) else "program"
    return name, f"{frame.filename[-_LONGEST:]}:{frame.line}", kind


def _add(root: _Node, path: list[tuple[str, str, str]], nbytes: int, count: int) -> None:
    node = root
    node.nbytes += nbytes
    node.count += count
    for name, file, kind in path:
        node = node.below.setdefault((name, file), _Node(name, file, kind))
        node.nbytes += nbytes
        node.count += count


def _write(root: _Node, columns: dict[str, list[Any]], smallest: float) -> None:
    waiting = [(root, -1)]
    while waiting:
        node, parent = waiting.pop()
        place = len(columns["name"])
        for name, value in (
            ("name", node.name),
            ("file", node.file),
            ("kind", node.kind),
            ("parent", parent),
            ("bytes", node.nbytes),
            ("count", node.count),
        ):
            columns[name].append(value)
        children = sorted(node.below.values(), key=lambda child: (-child.nbytes, child.name, child.file))
        large = [child for child in children if child.nbytes >= smallest]
        if place + len(waiting) + len(large) > _MOST_NODES:
            large = []
        small = children[len(large) :]
        if small:
            nbytes, count = sum(child.nbytes for child in small), sum(child.count for child in small)
            large.append(_Node(f"({len(small):,} smaller)", "", "", nbytes, count))
        waiting += [(child, place) for child in reversed(large)]
