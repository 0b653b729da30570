"""Splitting a segment in two, and merging two segments into one, without copying their contents."""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from memlake import _native
from memlake.errors import ConfigError
from memlake.units import Size, parse_bytes
from memlake.vmm.access import flags_at, same_driver
from memlake.vmm.chunk import hand_over
from memlake.vmm.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.device.device import Device

__all__ = ["merge", "split"]

# The access rights at one mapping: the driver's flags of each device that has access.
_Rights = dict["Device", int]


def split(segment: Segment, at: Size) -> tuple[Segment, Segment]:
    """See `Segment.split`."""
    segment._require_open()
    segment._views.refuse(f"split {segment!r}")
    boundary = parse_bytes(at, what="at")
    ends = list(accumulate(chunk.nbytes for chunk in segment._chunks))
    if boundary not in ends[:-1]:
        near = ", ".join(str(end) for end in sorted(sorted(ends[:-1], key=lambda end: abs(end - boundary))[:2]))
        where = f"the nearest boundaries are {near}" if near else "it has only one chunk"
        raise ConfigError(f"cannot split {segment!r} at {boundary}: no chunk ends there; {where}")
    cut = ends.index(boundary) + 1
    parts = _part(segment, slice(None, cut)), _part(segment, slice(cut, None))
    segment._release()
    return parts


def merge(first: Segment, second: Segment) -> Segment:
    """See `Segment.merge`."""
    if not isinstance(second, Segment):
        raise ConfigError(f"expected a memlake Segment, got {type(second).__name__}")
    if second is first:
        raise ConfigError(f"cannot merge {first!r} with itself")
    for segment in (first, second):
        segment._require_open()
        segment._views.refuse(f"merge {segment!r}")
    same_driver(first.device, second.devices)
    if first._reservation is second._reservation:
        for left, right in ((first, second), (second, first)):
            if left.address + left.nbytes == right.address:
                return _replace((left, right), left._mappings + right._mappings, left._reservation)
    return _move(first, second)


def _move(first: Segment, second: Segment) -> Segment:
    """Maps the chunks of both to a new range and unmaps the old ranges. Restores the old state if a step fails."""
    with first._driver_calls(), second._driver_calls():
        rights = [
            flags_at(mapping.address, segment._users) for segment in (first, second) for mapping in segment._mappings
        ]
        chunks = [chunk._core for chunk in first._chunks + second._chunks]
        reservation, mappings = _native.stitch(first.device._open, chunks, [])
        try:
            _grant(first.device, mappings, rights)
            _native.unmap(first._mappings)
            try:
                _native.unmap(second._mappings)
            except BaseException:
                _map_again(first, rights)
                raise
        except BaseException:
            _native.unmap(mappings)
            reservation.close()
            raise
    return _replace((first, second), mappings, reservation)


def _grant(device: Device, mappings: Sequence[_native.Mapping], rights: Sequence[_Rights]) -> None:
    """Sets access rights, with one driver call for each run of mappings with equal rights and each kind of right."""
    for granted, run in groupby(zip(mappings, rights, strict=True), key=lambda place: place[1]):
        places = [mapping for mapping, _ in run]
        nbytes = sum(mapping.nbytes for mapping in places)
        for flags in sorted(set(granted.values())):
            users = [user._open for user, its_flags in granted.items() if its_flags == flags]
            device._open.set_access(places[0].address, nbytes, users, flags)


def _map_again(segment: Segment, rights: Sequence[_Rights]) -> None:
    """Restores the mappings of a segment after they were unmapped."""
    places = [mapping.address - segment._reservation.address for mapping in segment._mappings]
    segment._mappings = tuple(
        _native.Mapping(segment._reservation, place, chunk._core, chunk.nbytes)
        for place, chunk in zip(places, segment._chunks, strict=True)
    )
    _grant(segment.device, segment._mappings, rights[: len(places)])


def _replace(
    segments: tuple[Segment, Segment], mappings: Sequence[_native.Mapping], reservation: _native.Reservation
) -> Segment:
    """Replaces two segments by one. Unused reservations are released when their last owner is dropped here."""
    first, second = segments
    merged = Segment._empty()._fill_in(
        first._chunks + second._chunks, mappings, reservation, first._users | second._users
    )
    for segment in segments:
        hand_over(segment._chunks, segment, merged)
        segment._release()
    return merged


def _part(segment: Segment, place: slice) -> Segment:
    """Makes a segment of a part of another segment."""
    part = Segment._empty()._fill_in(
        segment._chunks[place], segment._mappings[place], segment._reservation, segment._users
    )
    hand_over(part._chunks, segment, part)
    return part
