"""Which call site of one job is which call site of another, if lines have moved and the files are in other folders.

Two call sites can be the same only if their files are the same (`file_matching`) and their functions have the same
name. The call sites of one function are matched in the order of their lines. If one job has more of them, the best fit
decides: as many pairs as possible, the same functions called below, and the same distance as the pair before it. Call
sites without a line (nodes of autograd, C++ functions) are the same if their names are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlake.analysis.file_matching import match_files, place_of, text_of
from memlake.trace import CallSite, Op
from memlake.trace.call_sites import call_site_of
from memlake.trace.live_set import site_of_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from memlake.analysis.file_matching import Place
    from memlake.trace import Frame, Trace
    from memlake.trace.live_set import SiteMemo

__all__ = ["MOVED", "SAME", "UNSURE", "SiteMatch", "called_below_sites", "match_sites"]

SAME, MOVED, UNSURE = "same", "moved", "best fit"

# A tag that was made of a frame has the form of a call site's text: file.py:12 function.
_FRAME_TAG = re.compile(r"(.{1,200}?):(\d{1,9}) (.{1,200})")
_MOST_NAMES = 50
# A function with more call sites is no function of a person. Its sites are matched by their lines only.
_MOST_PAIRS = 2500

Called = frozenset[str]
"""The names of the functions that were called below a call site."""


@dataclass(frozen=True)
class SiteMatch:
    """Which call sites of A are which of B.

    Attributes:
        pairs: for each matched call site of A the one of B, and how sure that is: ``"same"``; ``"moved"``: another
            line or another folder; ``"best fit"``: A and B have different numbers of call sites in this function, so
            the pair is the most likely one.
        folders: the folders of A and B that are taken for the same one, as texts.
    """

    pairs: Mapping[CallSite, tuple[CallSite, str]]
    folders: tuple[tuple[str, str], ...] = ()


class _Located(NamedTuple):
    """A call site with a line."""

    line: int
    site: CallSite


def called_below_sites(trace: Trace, memo: SiteMemo, *, by_tag: bool = False) -> dict[CallSite, Called]:
    """Returns the call sites of all allocations of a trace, with the functions that were called below each.

    Args:
        trace: the trace.
        memo: gets the call sites of the stacks.
        by_tag: whether to take the tags of the trace for its call sites, also if it has stacks.
    """
    born = trace.op == Op.ALLOCATE.value
    if by_tag or trace.context is None:
        tags = [trace.tags[number] for number in np.unique(trace.tag[born]).tolist()] if trace.tags else [""]
        return {site_of_tag(tag): frozenset() for tag in tags}
    found: dict[CallSite, set[str]] = defaultdict(set)
    for number in np.unique(trace.context.stack[born]).tolist():
        stack = trace.context.stacks[number]
        site = memo.sites[number] = call_site_of(stack)
        names = found[site]
        if site.line and len(names) < _MOST_NAMES:
            names.update(_names_below(stack, site))
    return {site: frozenset(names) for site, names in found.items()}


def match_sites(sites_a: Mapping[CallSite, Called], sites_b: Mapping[CallSite, Called]) -> SiteMatch:
    """Finds for the call sites of A those of B."""
    pairs: dict[CallSite, tuple[CallSite, str]] = {}
    by_name = {_name_of(site): site for site in sites_b if _located(site) is None}
    for site in sites_a:
        if _located(site) is None and (same := by_name.get(_name_of(site))) is not None:
            pairs[site] = (same, SAME)
    groups_a, groups_b = _by_function(sites_a), _by_function(sites_b)
    files = match_files({place for place, _ in groups_a}, {place for place, _ in groups_b})
    folders = set()
    for (place, function), left in groups_a.items():
        other_place = files.get(place)
        right = groups_b.get((other_place, function)) if other_place is not None else None
        if other_place is None or right is None:
            continue
        if place != other_place:
            folders.add(_differing_folders(place, other_place))
        is_counted_alike = len(left) == len(right)
        for one, other in _aligned(left, right, sites_a, sites_b):
            is_same = one.line == other.line
            sure = (SAME if place == other_place else MOVED) if is_same else MOVED if is_counted_alike else UNSURE
            pairs[one.site] = (other.site, sure)
    return SiteMatch(pairs, tuple(sorted(folders)))


def _names_below(stack: Sequence[Frame], site: CallSite) -> list[str]:
    """Returns the names of the functions that the call site called, the innermost first."""
    names: list[str] = []
    for frame in stack:
        if (frame.line, frame.name[:100]) == (site.line, site.function) and frame.filename[:1000] == site.filename:
            return names[-_MOST_NAMES:]
        names.append(frame.name[:200])
    return []


def _located(site: CallSite) -> tuple[Place, str, int] | None:
    """Returns the file, the function and the line of a call site; None if it has no line."""
    if site.filename:
        return place_of(site.filename), site.function, site.line
    if site.rule == "tag" and (match := _FRAME_TAG.fullmatch(site.text)):
        return (f"tag:{match[1]}",), match[3], int(match[2])
    return None


def _name_of(site: CallSite) -> tuple[str, str]:
    return (site.rule, site.text)


def _by_function(sites: Iterable[CallSite]) -> dict[tuple[Place, str], list[_Located]]:
    groups: dict[tuple[Place, str], list[_Located]] = defaultdict(list)
    for site in sites:
        if (located := _located(site)) is not None:
            place, function, line = located
            groups[place, function].append(_Located(line, site))
    for group in groups.values():
        group.sort()
    return groups


def _differing_folders(one: Place, other: Place) -> tuple[str, str]:
    """Returns the folders of two paths without their common end."""
    num_parts = 0
    while num_parts < min(len(one), len(other)) and one[-1 - num_parts] == other[-1 - num_parts]:
        num_parts += 1
    return text_of(one[: len(one) - num_parts]), text_of(other[: len(other) - num_parts])


def _aligned(
    left: Sequence[_Located],
    right: Sequence[_Located],
    called_a: Mapping[CallSite, Called],
    called_b: Mapping[CallSite, Called],
) -> list[tuple[_Located, _Located]]:
    """Pairs the call sites of one function, in the order of their lines."""
    if [one.line for one in left] == [other.line for other in right]:
        return list(zip(left, right, strict=True))
    if len(left) * len(right) > _MOST_PAIRS:
        by_line = {other.line: other for other in right}
        return [(one, by_line[one.line]) for one in left if one.line in by_line]
    alike = [[_likeness(called_a[one.site], called_b[other.site]) for other in right] for one in left]
    return [(left[i], right[j]) for i, j in _best_pairs([one.line for one in left], [one.line for one in right], alike)]


def _best_pairs(lines_a: list[int], lines_b: list[int], alike: list[list[float]]) -> list[tuple[int, int]]:
    """Returns the pairs of places, ascending in both, whose sum of scores is the largest.

    A pair scores 1, up to 2 more for what is called below both sites, and 0.5 if it lies as far apart as the pair
    before it (the first: if it has not moved). Else the change of the distance lowers the score, by 0.2 at most.
    """
    num_a, num_b = len(lines_a), len(lines_b)
    shift = np.array(lines_b, np.float64)[None, :] - np.array(lines_a, np.float64)[:, None]
    own = 1 + 2 * np.array(alike)
    best = own + _of_change(shift)
    before = np.full((num_a, num_b), -1, np.int64)
    for i in range(1, num_a):
        for j in range(1, num_b):
            chained = best[:i, :j] + _of_change(shift[:i, :j] - shift[i, j])
            place = int(np.argmax(chained))
            chained_score = own[i, j] + chained.flat[place]
            if chained_score > best[i, j]:
                best[i, j] = chained_score
                before[i, j] = (place // j) * num_b + place % j
    pairs = []
    place = int(np.argmax(best))
    while place >= 0:
        pairs.append(divmod(place, num_b))
        place = int(before.flat[place])
    return pairs[::-1]


def _of_change(change: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(change == 0, 0.5, -0.2 * np.minimum(np.abs(change), 1000) / 1000)


def _likeness(one: Called, other: Called) -> float:
    """Returns the share of common names, from 0 to 1."""
    return len(one & other) / len(one | other) if one or other else 0.0
