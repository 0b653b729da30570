"""The address map of a replay: which block lay where, from moment to moment, in a form that a page can draw.

A block that stays for many moments is one span: its place, its state, and its first and last moment. The page shows
a moment by drawing the spans that contain it. A replay with more spans than a page can hold is drawn coarser: small
blocks that lie side by side become one span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlake.html_report.blobs import UNIT, in_units
from memlake.replaying.moments import STATES

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.replaying.moments import Moments

__all__ = ["MIXED", "AddressMap", "address_map_of"]

_LIVE, _PENDING = STATES.index("live"), STATES.index("pending")
MIXED = len(STATES)
"""The state of a span that stands for several small blocks in different states."""
SEVERAL = 2**32 - 1
"""The site of a span that stands for several blocks, or for none in use."""
_FIRST_GRAIN, _LARGEST_GRAIN = 64 * 1024, 64 * 1024**2


class AddressMap(NamedTuple):
    """The spans of a replay as columns, by address.

    Attributes:
        columns: for each span its address (in units, as the difference to the span before), size in units, state,
            site, stream, segment, and its first and last moment.
        segments: for each segment its address as text, its page size in bytes (0: it has no pages), and 1 if it is
            for small requests.
        grain: blocks below this many bytes were joined with their neighbours; 0: none were.
    """

    columns: dict[str, npt.NDArray[Any]]
    segments: list[tuple[str, int, int]]
    grain: int

    def __len__(self) -> int:
        return len(self.columns["first"])


class _Pieces(NamedTuple):
    """Blocks or spans as columns, by moment and then by address."""

    moment: npt.NDArray[np.int64]
    address: npt.NDArray[np.uint64]
    nbytes: npt.NDArray[np.uint64]
    state: npt.NDArray[np.int64]
    site: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    identity: npt.NDArray[np.uint64]

    def where(self, chosen: npt.NDArray[Any]) -> _Pieces:
        return _Pieces(*(column[chosen] for column in self))


def address_map_of(moments: Moments, site_of: npt.NDArray[np.uint32], most_spans: int) -> AddressMap:
    """Returns the map of a replay with `most_spans` spans at most, as far as joining small blocks helps.

    Args:
        moments: the blocks after chosen rows.
        site_of: the site of each allocation that got memory, in their order.
        most_spans: the number of spans above which small blocks are joined.
    """
    begins, segment = np.unique(moments.column("segment"), return_inverse=True)
    ids, states = moments.column("id").astype(np.int64), moments.column("state").astype(np.int64)
    site = np.full(len(ids), SEVERAL, np.int64)
    is_known = ((states == _LIVE) | (states == _PENDING)) & (ids < len(site_of))
    site[is_known] = site_of[ids[is_known]]
    blocks = _Pieces(
        moment=moments.moment,
        address=moments.column("address"),
        nbytes=moments.column("nbytes"),
        state=states,
        site=site,
        stream=moments.column("stream").astype(np.int64),
        segment=segment.reshape(-1).astype(np.int64),
        identity=moments.column("id"),
    )
    grain = 0
    spans, first, last = _over_time(blocks)
    while len(first) > most_spans and grain < _LARGEST_GRAIN:
        grain = max(2 * grain, _FIRST_GRAIN)
        blocks = _joined(blocks, grain)
        spans, first, last = _over_time(blocks)
    place = in_units(_without_gaps(spans.address, spans.nbytes))
    columns: dict[str, npt.NDArray[Any]] = {
        "address": np.diff(place, prepend=np.uint32(0)).astype(np.uint32),
        "nbytes": in_units(spans.nbytes),
        "state": spans.state.astype(np.uint8),
        "site": spans.site.astype(np.uint32),
        "stream": np.minimum(spans.stream, 2**16 - 1).astype(np.uint16),
        "segment": spans.segment.astype(np.uint32),
        "first": first.astype(np.uint16),
        "last": last.astype(np.uint16),
    }
    return AddressMap(columns, _segments(moments, begins), grain)


def _over_time(blocks: _Pieces) -> tuple[_Pieces, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Joins equal blocks of successive moments. Returns the spans by address, with their first and last moments."""
    order = np.lexsort((blocks.moment, blocks.identity, blocks.state, blocks.nbytes, blocks.address))
    ordered = blocks.where(order)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.diff(ordered.moment) != 1
    for column in (ordered.address, ordered.nbytes, ordered.state, ordered.identity, ordered.site):
        begins[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) - 1
    return ordered.where(starts), ordered.moment[starts], ordered.moment[np.maximum(ends, 0)] if len(order) else starts


def _joined(blocks: _Pieces, grain: int) -> _Pieces:
    """Joins blocks below the grain that lie side by side in one segment at one moment."""
    is_small = blocks.nbytes < grain
    follows = np.zeros(len(is_small), np.bool_)
    # A joined span may not grow over the next border of the grain, so that it stays equal from moment to moment.
    cell = blocks.address // np.uint64(grain)
    follows[1:] = (
        is_small[1:]
        & is_small[:-1]
        & (blocks.moment[1:] == blocks.moment[:-1])
        & (blocks.segment[1:] == blocks.segment[:-1])
        & (blocks.address[1:] == blocks.address[:-1] + blocks.nbytes[:-1])
        & (cell[1:] == cell[:-1])
    )
    starts = np.flatnonzero(~follows)
    counts = np.diff(np.append(starts, len(follows)))
    joined = blocks.where(starts)
    several = counts > 1

    def same(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        equal: npt.NDArray[np.bool_] = np.minimum.reduceat(column, starts) == np.maximum.reduceat(column, starts)
        return equal

    state = np.where(same(blocks.state), joined.state, MIXED)
    site = np.where(same(blocks.site), joined.site, SEVERAL)
    nbytes = np.add.reduceat(blocks.nbytes, starts)
    identity = np.where(several, np.uint64(0), joined.identity)
    return joined._replace(nbytes=nbytes, state=state, site=site, identity=identity)


def _without_gaps(address: npt.NDArray[np.uint64], nbytes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns the places of spans, sorted by address, in a space without the addresses that no span ever has."""
    if len(address) == 0:
        return address
    ends = np.maximum.accumulate(address + nbytes)
    gaps = np.zeros(len(address), np.uint64)
    gaps[1:] = np.where(address[1:] > ends[:-1], address[1:] - ends[:-1], np.uint64(0))
    gaps[0] = address[0]
    place: npt.NDArray[np.uint64] = (address - np.cumsum(gaps, dtype=np.uint64)) // np.uint64(UNIT) * np.uint64(UNIT)
    return place


def _segments(moments: Moments, begins: npt.NDArray[np.uint64]) -> list[tuple[str, int, int]]:
    _, first = np.unique(moments.column("segment"), return_index=True)
    pages = moments.column("page")[first].tolist()
    small = moments.column("is_small")[first].tolist()
    return [(hex(begin), page, is_small) for begin, page, is_small in zip(begins.tolist(), pages, small, strict=True)]
