"""Differences: what grew between two snapshots, or between two steps of one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from memlake.analysis.diff_side import DiffSide, Moments, side_of, steps_named
from memlake.analysis.growth import growth_by_site, growth_by_size, signed
from memlake.analysis.never_freed_memory import never_freed
from memlake.analysis.site_matching import SiteMatch, called_below_sites, match_sites
from memlake.analysis.still_live import still_live
from memlake.errors import ConfigError
from memlake.printable import Printable
from memlake.replaying.running import to_trace
from memlake.trace.caveats import contradiction_of, other_devices_of
from memlake.trace.live_set import SiteMemo
from memlake.units import format_bytes
from memlake.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake.analysis.growth import Growth
    from memlake.analysis.never_freed_memory import NeverFreed
    from memlake.analysis.still_live import StillLive
    from memlake.trace import PeakRow, Trace
    from memlake.trace.live_set import LiveSet

__all__ = ["Change", "Diff", "diff"]

_WELL_KNOWN = 0.9
_MOST_CHANGES = 30
_MOST_SETTINGS = 200
_LONGEST = 200


class Change(NamedTuple):
    """A setting of the job that differs between A and B, as texts."""

    name: str
    a: str
    b: str

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return self._asdict()


@dataclass(frozen=True, kw_only=True)
class Diff(Printable, table="diff"):
    """The result of `diff`. `print` shows it as ``memlake diff`` does.

    Attributes:
        a, b: the two sides.
        is_same: whether both sides record the same, row by row.
        peak: what was live at the peak of A and at the peak of B; None if a file does not know its peak.
        end: what was live at the end of A and at the end of B.
        scope: what the peaks are the peaks of: ``"job"``; ``"recorded part"`` if the beginning of a history is missing;
            ``"step"``; empty without peaks.
        changes: the settings that differ.
        folders: the folders of A and B that are taken for the same one when call sites are matched.
        never_freed: what was allocated in the history of A and not freed at its end; None between two steps.
        still_live: what is still live at the end of B of what was at the end of A; None between two steps.
        notes: what a reader must know before trusting the figures.
        steps_known_by: how the steps are known, if two steps are compared; else empty.
    """

    a: DiffSide
    b: DiffSide
    is_same: bool
    peak: Growth | None
    end: Growth
    scope: str
    changes: tuple[Change, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    never_freed: NeverFreed | None = field(default=None, repr=False)
    still_live: StillLive | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    steps_known_by: str = ""

    def __repr__(self) -> str:
        peak = "unknown" if self.peak is None else signed(self.peak.growth)
        return f"<memlake.Diff: peak {peak}, end {signed(self.end.growth)}>"

    @property
    def held_growth(self) -> int | None:
        """How much more B held at its peak; None if a file does not tell."""
        if self.a.held_peak is None or self.b.held_peak is None:
            return None
        return self.b.held_peak - self.a.held_peak

    @property
    def sentence(self) -> str:
        """The difference in words."""
        if self.is_same:
            return "A and B record the same: nothing differs."
        texts = [growth.sentence for growth in (self.peak, self.end) if growth is not None]
        beyond = _beyond(self)
        return " ".join([*texts, *([beyond] if beyond else [])])

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake diff --json`` prints, as a dict."""
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "is_same": self.is_same,
            "scope": self.scope,
            "steps_known_by": self.steps_known_by,
            "peak": None if self.peak is None else self.peak.to_json(),
            "end": self.end.to_json(),
            "held_growth": self.held_growth,
            "changes": [change.to_json() for change in self.changes],
            "folders": [{"a": a, "b": b} for a, b in self.folders],
            "never_freed": None if self.never_freed is None else self.never_freed.to_json(),
            "still_live": None if self.still_live is None else self.still_live.to_json(),
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def diff(
    a: Trace | str | os.PathLike[str],
    b: Trace | str | os.PathLike[str] | None = None,
    *,
    steps: tuple[int, int] | None = None,
    any_device: bool = False,
) -> Diff:
    """Finds what grew between two snapshots, or between two steps of one: peak against peak, and end against end.

    Call sites whose lines have moved, or whose files are in another folder, are taken for the same ones;
    docs/reference/diff.md has the rules.

    Args:
        a: the earlier trace, or the path of its file.
        b: the later one. None: two steps of `a`.
        steps: the numbers of the two steps.
        any_device: whether to compare snapshots of devices with different numbers.

    Raises:
        ConfigError: if the arguments do not name two things that can be compared: one trace without steps, a step that
            the trace does not have, or snapshots of different devices.
        TraceError: if a file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    if b is None and steps is None:
        raise ConfigError("one trace has nothing to be compared with; give a second one, or two steps of it")
    if b is not None and steps is not None:
        raise ConfigError("steps are those of one trace; leave the second trace or the steps out")
    first = to_trace(a)
    if steps is not None:
        one, other, known_by = steps_named(first, _pair(steps))
        sides = [side_of(first, f"step {step.number}", step) for step in (one, other)]
        found = _diff(sides[0], sides[1], is_same=one == other, scope="step")
        return replace(found, steps_known_by=known_by)
    assert b is not None
    second = to_trace(b)
    _refuse_other_devices(first, second, any_device)
    scope = "job" if first.history.kind == second.history.kind == "complete" else "recorded part"
    is_same = first is second or first == second
    return _diff(side_of(first, _name(a)), side_of(second, _name(b)), is_same=is_same, scope=scope)


def _diff(one: tuple[DiffSide, Moments], other: tuple[DiffSide, Moments], *, is_same: bool, scope: str) -> Diff:
    (a, in_a), (b, in_b) = one, other
    trace_a, trace_b = in_a.trace, in_b.trace
    by_tag = trace_a.context is None or trace_b.context is None
    memo_a = SiteMemo()
    memo_b = memo_a if trace_a is trace_b else SiteMemo()
    sites = [called_below_sites(trace, memo, by_tag=by_tag) for trace, memo in ((trace_a, memo_a), (trace_b, memo_b))]
    lacking = [name for name, found in zip("AB", sites, strict=True) if all(site.rule == "none" for site in found)]
    match = SiteMatch({}) if lacking else match_sites(*sites)
    has_peaks = in_a.peak is not None and in_b.peak is not None
    growths = {}
    for moment in ("peak", "end") if has_peaks else ("end",):
        live = (getattr(in_a, moment), getattr(in_b, moment))
        rows = (_by_site(live[0], trace_a, by_tag, memo_a), _by_site(live[1], trace_b, by_tag, memo_b))
        if lacking:
            growths[moment] = growth_by_size(moment, live, rows)
            continue
        growth = growth_by_site(moment, live, rows, match)
        growths[moment] = _with_reached(growth, in_a, in_b, match, by_tag) if moment == "peak" else growth
    is_of_files = a.step is None
    return Diff(
        a=a,
        b=b,
        is_same=is_same,
        peak=growths.get("peak"),
        end=growths["end"],
        scope=scope if has_peaks else "",
        changes=_changes(trace_a, trace_b) if is_of_files else (),
        folders=match.folders,
        never_freed=never_freed(trace_a) if is_of_files else None,
        still_live=still_live(trace_a, trace_b) if is_of_files and not is_same else None,
        notes=_notes((a, b), (trace_a, trace_b), lacking, growths, match),
    )


def _by_site(live: LiveSet | None, trace: Trace, by_tag: bool, memo: SiteMemo | None = None) -> tuple[PeakRow, ...]:
    num_before = 0 if trace.history.kind == "state" else trace.num_carried
    return () if live is None else live.by_site(trace, num_before=num_before, by_tag=by_tag, memo=memo)


def _with_reached(growth: Growth, a: Moments, b: Moments, match: SiteMatch, by_tag: bool) -> Growth:
    """Adds the call sites of the requests that reached the peaks."""
    sites = []
    for moments in (a, b):
        rows = () if moments.peak is None else _by_site(moments.peak.youngest(), moments.trace, by_tag)
        sites.append(rows[0].site if rows and rows[0].site.rule != "none" else None)
    one, other = sites
    is_alike = one is not None and other is not None and match.pairs.get(one, (None, ""))[0] == other
    return replace(growth, reached_by_a=one, reached_by_b=other, is_reached_alike=is_alike)


def _notes(
    sides: tuple[DiffSide, DiffSide],
    traces: tuple[Trace, Trace],
    lacking: list[str],
    growths: Mapping[str, Growth],
    match: SiteMatch,
) -> tuple[str, ...]:
    notes = []
    unknown = [name for name, side in zip("AB", sides, strict=True) if side.history.kind == "state"]
    late = [name for name, side in zip("AB", sides, strict=True) if side.history.kind in ("warm", "cut")]
    if unknown:
        verb = plural(len(unknown), "has", "have")
        notes.append(
            f"{' and '.join(unknown)} {verb} no history, so the peaks are not known. Only the ends are compared."
        )
    elif late and sides[0].step is None:
        notes.append(
            f"The history of {' and '.join(late)} lacks the beginning: the peak is that of the recorded part, and the "
            "job may have needed more before."
        )
    if lacking:
        verb = plural(len(lacking), "has", "have")
        notes.append(f"{' and '.join(lacking)} {verb} no call sites, so allocations are compared by their sizes.")
    else:
        tagged = [name for name, trace in zip("AB", traces, strict=True) if trace.context is None]
        if len(tagged) == 1:
            notes.append(f"{tagged[0]} has tags in place of stacks, so both files are compared by their tags.")
        notes += _notes_on_sites(growths)
    notes += [f"{a} in A is taken for {b} in B." for a, b in match.folders]
    if sides[0].step is None:
        for name, trace in zip("AB", traces, strict=True):
            notes += [f"{name}: {text}" for text in (contradiction_of(trace), other_devices_of(trace)) if text]
    return tuple(notes)


def _notes_on_sites(growths: Mapping[str, Growth]) -> list[str]:
    notes = []
    for moment, growth in growths.items():
        shares = [
            (name, known / nbytes)
            for name, known, nbytes in (
                ("A", growth.known_a, growth.bytes_a),
                ("B", growth.known_b, growth.bytes_b),
            )
            if nbytes
        ]
        if any(share < _WELL_KNOWN for _, share in shares):
            known = " and ".join(f"{100 * share:.0f} % of the bytes in {name}" for name, share in shares)
            notes.append(f"The call site is known for {known} at the {moment}.")
    return notes


def _beyond(found: Diff) -> str:
    """Says that PyTorch held more beyond what was live, if that is the larger part of the growth."""
    growth = found.held_growth
    if growth is None or found.peak is None or found.a.step is not None:
        return ""
    beyond = growth - found.peak.growth
    if growth <= 0 or beyond <= max(found.peak.growth, 0):
        return ""
    return (
        f"PyTorch held {signed(growth)} at its peak, of which {format_bytes(beyond)} were not live: settings or "
        "fragmentation, not the program's requests. memlake advise tells which settings hold less."
    )


def _changes(a: Trace, b: Trace) -> tuple[Change, ...]:
    found = []
    one, other = a.settings, b.settings
    if one.policy is not None and other.policy is not None:
        found.append(Change("torch", str(one.torch), str(other.torch)))
        found.append(Change("ran under", one.policy.label, other.policy.label))
    before, after = _flat(a.metadata.get("allocator_settings")), _flat(b.metadata.get("allocator_settings"))
    for name in sorted(before.keys() | after.keys()):
        found.append(Change(name, before.get(name, "(not in the file)"), after.get(name, "(not in the file)")))
    for name, key in (("devices in the file", "devices"), ("private pools", "private_pools")):
        counts = [len(value) if isinstance(value := trace.metadata.get(key), dict) else 0 for trace in (a, b)]
        found.append(Change(name, str(counts[0]), str(counts[1])))
    return tuple(change for change in found if change.a != change.b)[:_MOST_CHANGES]


def _flat(settings: object) -> dict[str, str]:
    """Returns the settings of an untrusted file as texts, without those that only describe the recording."""
    if not isinstance(settings, dict):
        return {}
    flat: dict[str, str] = {}
    for name, value in list(settings.items())[:_MOST_SETTINGS]:
        parts = list(value.items())[:_MOST_SETTINGS] if isinstance(value, dict) else [("", value)]
        for part, one in parts:
            flat[f"{name}.{part}".removesuffix(".")[:_LONGEST]] = str(one)[:_LONGEST]
    return {name: value for name, value in flat.items() if not name.startswith("trace_alloc")}


def _refuse_other_devices(a: Trace, b: Trace, any_device: bool) -> None:
    accelerators = [trace.settings.accelerator for trace in (a, b) if trace.settings.policy is not None]
    if len(set(accelerators)) > 1:
        names = ["torch_npu" if name == "npu" else "CUDA" for name in accelerators]
        raise ConfigError(
            f"A is a snapshot of {names[0]} and B of {names[1]}: their allocators differ, so their memory cannot be "
            "compared; give two snapshots of one kind"
        )
    devices = [trace.metadata.get("device") for trace in (a, b)]
    chosen = [trace.metadata.get("device_chosen") == "by the caller" for trace in (a, b)]
    if any_device or all(chosen) or None in devices or devices[0] == devices[1]:
        return
    common = sorted(_devices(a) & _devices(b))
    hint = f"--device {common[0]} compares device {common[0]} of both, and " if common else ""
    raise ConfigError(
        f"A is of device {devices[0]} and B of device {devices[1]}; {hint}--device {devices[0]},{devices[1]} compares "
        "these two (in Python: Trace.load(path, device=...))"
    )


def _devices(trace: Trace) -> set[int]:
    known = trace.metadata.get("devices")
    return {int(name) for name in known if name.isdecimal()} if isinstance(known, dict) else set()


def _pair(steps: object) -> tuple[int, int]:
    numbers = list(steps) if isinstance(steps, list | tuple) else []
    if len(numbers) != 2 or any(type(number) is not int or number < 0 for number in numbers):
        raise ConfigError(f"steps must be two numbers of steps, such as (3, 7), got {str(steps)[:60]}")
    return numbers[0], numbers[1]


def _name(given: object) -> str:
    return os.fspath(given)[-1000:] if isinstance(given, str | os.PathLike) else ""
