"""What grew and what shrank between two moments, by call site or by size, and by category."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from memlake.analysis.site_matching import SAME
from memlake.trace.call_sites import KNOWN_RULES
from memlake.trace.categories import RULES, UNKNOWN
from memlake.trace.peak import categories_of
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlake.analysis.site_matching import SiteMatch
    from memlake.trace import CallSite, PeakRow
    from memlake.trace.live_set import LiveSet

__all__ = ["CategoryGrowth", "Growth", "GrowthRow", "growth_by_site", "growth_by_size", "signed"]

ONLY_A, ONLY_B = "only in A", "only in B"


class GrowthRow(NamedTuple):
    """What one call site, or one class of sizes, had live at both moments.

    Attributes:
        name: the call site in B, or in A if B does not have it; or the class of sizes.
        match: ``"same"``; ``"moved"``: B has it at another line or in another folder; ``"best fit"``: as moved, but
            A and B have different numbers of call sites in that function, so the pair is the most likely one;
            ``"only in A"`` or ``"only in B"``: the other file has no allocation of it, live or not.
        bytes_a, bytes_b: the live bytes, each request rounded up to 512.
        count_a, count_b: the number of live allocations.
        site_a, site_b: the call site in each; None if it has none there, and for a class of sizes.
    """

    name: str
    match: str
    bytes_a: int
    bytes_b: int
    count_a: int
    count_b: int
    site_a: CallSite | None = None
    site_b: CallSite | None = None

    @property
    def growth(self) -> int:
        """How many bytes more B has."""
        return self.bytes_b - self.bytes_a

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            "name": self.name,
            "match": self.match,
            "growth": self.growth,
            "bytes_a": self.bytes_a,
            "bytes_b": self.bytes_b,
            "count_a": self.count_a,
            "count_b": self.count_b,
            "site_a": _site_json(self.site_a),
            "site_b": _site_json(self.site_b),
        }


class CategoryGrowth(NamedTuple):
    """The live bytes of one category at both moments."""

    category: str
    bytes_a: int
    bytes_b: int

    @property
    def growth(self) -> int:
        """How many bytes more B has."""
        return self.bytes_b - self.bytes_a

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict, with the rule of the category."""
        return {
            "category": self.category,
            "growth": self.growth,
            "bytes_a": self.bytes_a,
            "bytes_b": self.bytes_b,
            "rule": RULES[self.category],
        }


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What was live at a moment of A and at a moment of B. Iterating yields the rows.

    Attributes:
        moment: ``"peak"`` or ``"end"``.
        by: what a row is: ``"call site"``, or ``"size"`` if a file has no call sites.
        row_a, row_b: the row of the trace after which it is; None if the trace is empty.
        bytes_a, bytes_b: all live bytes, each request rounded up to 512.
        count_a, count_b: the number of live allocations.
        known_a, known_b: the part of the bytes whose call site is known.
        reached_by_a, reached_by_b: the call site of the request that reached the peak; None for the end, by size, and
            if that is not known.
        is_reached_alike: whether these are the same call site.
        rows: the rows that have anything live in A or B, the largest growth first, what shrank most last.
        categories: the categories that have anything, the largest growth first.
    """

    moment: str
    by: str
    row_a: int | None
    row_b: int | None
    bytes_a: int
    bytes_b: int
    count_a: int
    count_b: int
    known_a: int
    known_b: int
    reached_by_a: CallSite | None = None
    reached_by_b: CallSite | None = None
    is_reached_alike: bool = True
    rows: tuple[GrowthRow, ...] = field(repr=False)
    categories: tuple[CategoryGrowth, ...] = field(repr=False)

    def __iter__(self) -> Iterator[GrowthRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def growth(self) -> int:
        """How many bytes more are live in B."""
        return self.bytes_b - self.bytes_a

    @property
    def grown(self) -> tuple[GrowthRow, ...]:
        """The rows that grew, the most first."""
        return tuple(row for row in self.rows if row.growth > 0)

    @property
    def shrunk(self) -> tuple[GrowthRow, ...]:
        """The rows that shrank, the most first."""
        return tuple(row for row in reversed(self.rows) if row.growth < 0)

    @property
    def unchanged(self) -> tuple[GrowthRow, ...]:
        """The rows that have the same bytes in both."""
        return tuple(row for row in self.rows if row.growth == 0)

    @property
    def has_categories(self) -> bool:
        """Whether any category is known."""
        return any(one.category != UNKNOWN for one in self.categories)

    @property
    def reached(self) -> str:
        """By which requests the peaks were reached, as text; empty if that is not known."""
        if self.reached_by_a is None or self.reached_by_b is None:
            return ""
        if self.is_reached_alike:
            return f"Both peaks were reached by {self.reached_by_b.text}."
        return (
            f"The peak was reached by {self.reached_by_a.text} in A and by {self.reached_by_b.text} in B: these are "
            "different parts of the program, so rows that grew and rows that shrank do not belong to one moment."
        )

    @property
    def sentence(self) -> str:
        """The growth in words."""
        where = "at the peak" if self.moment == "peak" else "at the end"
        if not self.bytes_a and not self.bytes_b:
            return f"Nothing is live {where}."
        text = f"Live {where}: {format_bytes(self.bytes_a)} in A, {format_bytes(self.bytes_b)} in B"
        if not self.growth:
            moved = "." if not self.grown else ", but not by the same call sites."
            return f"{text}: the same{moved if self.by == 'call site' or not self.grown else ', but in other sizes.'}"
        share = f", {100 * self.growth / self.bytes_a:+.1f} %" if self.bytes_a else ""
        rows = self.grown if self.growth > 0 else self.shrunk
        is_small = abs(self.growth) * 100 < self.bytes_a
        most = "" if is_small or self.by != "call site" else f"; {rows[0].name} has {signed(rows[0].growth)}"
        return f"{text} ({signed(self.growth)}{share}{most})."

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            "moment": self.moment,
            "by": self.by,
            "growth": self.growth,
            **{
                name: getattr(self, name)
                for name in ("row_a", "row_b", "bytes_a", "bytes_b", "count_a", "count_b", "known_a", "known_b")
            },
            "reached_by_a": _site_json(self.reached_by_a),
            "reached_by_b": _site_json(self.reached_by_b),
            "is_reached_alike": self.is_reached_alike,
            "rows": [row.to_json() for row in self.rows],
            "categories": [one.to_json() for one in self.categories],
            "sentence": self.sentence,
        }


def signed(nbytes: int) -> str:
    """Formats a difference of bytes: ``"+1 GiB"``, ``"-2 MiB"``, ``"0 B"``."""
    return f"+{format_bytes(nbytes)}" if nbytes > 0 else format_bytes(nbytes)


def growth_by_site(
    moment: str,
    live: tuple[LiveSet | None, LiveSet | None],
    rows: tuple[Sequence[PeakRow], Sequence[PeakRow]],
    match: SiteMatch,
) -> Growth:
    """Compares two moments by call site.

    Args:
        moment: ``"peak"`` or ``"end"``.
        live: what is live in A and in B; None for an empty trace.
        rows: the same by call site.
        match: which call sites of A are which of B; of all call sites, also of those that have nothing live.
    """
    rows_a, rows_b = rows
    of_b = {row.site: row for row in rows_b}
    from_b = {other: one for one, (other, _) in match.pairs.items()}
    found = []
    for row in rows_a:
        other, how = match.pairs.get(row.site, (None, ONLY_A))
        pair = of_b.get(other) if other is not None else of_b.get(row.site) if row.site.rule == "none" else None
        if pair is None:
            name = row.site.text if other is None else other.text
            found.append(GrowthRow(name, how, row.nbytes, 0, row.count, 0, row.site, other))
        else:
            how = how if other is not None else SAME
            counts = row.nbytes, pair.nbytes, row.count, pair.count
            found.append(GrowthRow(pair.site.text, how, *counts, row.site, pair.site))
    seen = {row.site_b for row in found}
    for row in rows_b:
        if row.site not in seen:
            one = from_b.get(row.site)
            how = ONLY_B if one is None else match.pairs[one][1]
            found.append(GrowthRow(row.site.text, how, 0, row.nbytes, 0, row.count, one, row.site))
    return _growth(moment, "call site", live, rows, found)


def growth_by_size(
    moment: str,
    live: tuple[LiveSet | None, LiveSet | None],
    rows: tuple[Sequence[PeakRow], Sequence[PeakRow]],
) -> Growth:
    """Compares two moments by the sizes of the allocations, in classes from one power of two to the next."""
    classes: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for side, one in enumerate(live):
        for size in [] if one is None else one.sizes.tolist():
            counted = classes[size.bit_length()]
            counted[side] += size
            counted[2 + side] += 1
    found = []
    for bits in sorted(classes):
        bytes_a, bytes_b, count_a, count_b = classes[bits]
        name = f"{format_bytes(2 ** (bits - 1))} to {format_bytes(2**bits)}"
        found.append(GrowthRow(name, SAME, bytes_a, bytes_b, count_a, count_b))
    return _growth(moment, "size", live, rows, found)


def _growth(
    moment: str,
    by: str,
    live: tuple[LiveSet | None, LiveSet | None],
    rows: tuple[Sequence[PeakRow], Sequence[PeakRow]],
    found: list[GrowthRow],
) -> Growth:
    parts = [categories_of(one) for one in rows]
    names = sorted(parts[0].keys() | parts[1].keys())
    categories = [CategoryGrowth(name, *(part.get(name, 0) for part in parts)) for name in names]
    a, b = live
    return Growth(
        moment=moment,
        by=by,
        row_a=None if a is None else a.row,
        row_b=None if b is None else b.row,
        bytes_a=0 if a is None else a.nbytes,
        bytes_b=0 if b is None else b.nbytes,
        count_a=0 if a is None else len(a),
        count_b=0 if b is None else len(b),
        known_a=_known(rows[0]),
        known_b=_known(rows[1]),
        rows=tuple(sorted(found, key=lambda row: (-row.growth, -row.bytes_b, row.name))),
        categories=tuple(sorted(categories, key=lambda one: (-one.growth, one.category))),
    )


def _known(rows: Sequence[PeakRow]) -> int:
    return sum(row.nbytes for row in rows if row.site.rule in KNOWN_RULES)


def _site_json(site: CallSite | None) -> Mapping[str, Any] | None:
    return None if site is None else site.to_json()
