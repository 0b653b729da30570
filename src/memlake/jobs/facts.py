"""What a file tells about the job that it belongs to, and what differs between files of different jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.replaying.capacity import known_capacity
from memlake.trace.call_sites import call_site_of
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake.trace import JobSettings, TorchVersions, Trace

__all__ = ["JobFacts", "differences_of", "facts_of"]

_MOST_PROGRAMS = 10_000
_MOST_SHOWN = 3
_LONGEST = 30
# Two devices are of different sizes if one has less than this share of the other, as (part, whole). The file tells what
# PyTorch could have, and what other programs and libraries take differs from rank to rank.
_SAME_SIZE = (3, 4)


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What a file tells about its job.

    Attributes:
        source: what wrote the file; empty if it does not say.
        settings: what is known of the job's own allocator.
        capacity: the memory that the device had for PyTorch, if the file tells it.
        programs: the names of the program's own files in the stacks, without their folders.
    """

    source: str
    settings: JobSettings
    capacity: int | None
    programs: frozenset[str]

    @property
    def ran_under(self) -> str:
        """The allocator of the job with its settings, as text; empty if the file does not tell."""
        if self.settings.memlake:
            return f"memlake ({self.settings.memlake})"
        return "" if self.settings.policy is None else self.settings.policy.label


def facts_of(trace: Trace) -> JobFacts:
    """Returns what a trace tells about its job."""
    source = trace.metadata.get("source")
    return JobFacts(
        source=source[:100] if isinstance(source, str) else "",
        settings=trace.settings,
        capacity=known_capacity(trace),
        programs=_programs(trace),
    )


def differences_of(every: Mapping[str, JobFacts]) -> tuple[str, ...]:
    """Returns what differs between files of different jobs, one text each; empty if they can be of one job.

    Args:
        every: the facts of each file, by its label.
    """
    found = [
        _different("formats", {label: facts.source or "unknown" for label, facts in every.items()}),
        _different("accelerators", {label: facts.settings.accelerator for label, facts in every.items()}),
        _different_versions({label: facts.settings.torch for label, facts in every.items()}),
        _different(
            "settings",
            {label: facts.ran_under for label, facts in every.items() if facts.ran_under},
        ),
        _different_sizes({label: facts.capacity for label, facts in every.items() if facts.capacity}),
        _different_programs({label: facts.programs for label, facts in every.items() if facts.programs}),
    ]
    return tuple(filter(None, found))


def _different(what: str, values: Mapping[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for label, value in values.items():
        groups.setdefault(value, []).append(label)
    return f"{what} ({_grouped(groups)})" if len(groups) > 1 else ""


def _grouped(groups: Mapping[str, list[str]]) -> str:
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    shown = [f"{value}: {_labels(labels)}" for value, labels in ordered[:_MOST_SHOWN]]
    return "; ".join(shown) + (f"; {len(ordered) - _MOST_SHOWN} more" if len(ordered) > _MOST_SHOWN else "")


def _labels(labels: list[str]) -> str:
    names = ", ".join(labels[:_MOST_SHOWN])
    if len(labels) > 1 and (len(labels) > _MOST_SHOWN or len(names) > _LONGEST):
        return f"{len(labels)} files"
    return names


def _different_versions(versions: Mapping[str, TorchVersions]) -> str:
    """Compares what is certain: two files differ only if no version can have written both."""
    firsts: list[Any] = [one.first for one in versions.values() if one.first is not None]
    lasts: list[Any] = [one.last for one in versions.values() if one.last is not None]
    if not firsts or not lasts or max(firsts) <= min(lasts):
        return ""
    return _different("versions of torch", {label: str(one) for label, one in versions.items()})


def _different_sizes(sizes: Mapping[str, int]) -> str:
    part, whole = _SAME_SIZE
    if not sizes or min(sizes.values()) * whole >= max(sizes.values()) * part:
        return ""
    return _different("sizes of the device", {label: format_bytes(size) for label, size in sizes.items()})


def _different_programs(programs: Mapping[str, frozenset[str]]) -> str:
    """Compares the program's own files: ranks of one job share at least the script that they run."""
    groups: list[tuple[set[str], list[str]]] = []
    for label, names in programs.items():
        same = [group for group in groups if group[0] & names]
        others = [group for group in groups if not group[0] & names]
        merged = set(names).union(*(group[0] for group in same))
        groups = [*others, (merged, [name for group in same for name in group[1]] + [label])]
    if len(groups) < 2:
        return ""
    return f"programs ({_grouped({min(names): labels for names, labels in groups})})"


def _programs(trace: Trace) -> frozenset[str]:
    """Returns the program's own files among all frames, not those of torch, installed packages or Python itself."""
    if trace.context is None:
        return frozenset()
    stacks = trace.context.stacks
    found: dict[int, int] = {}
    for number, text in enumerate(stacks.filename.tolist()):
        found.setdefault(text, number)
        if len(found) >= _MOST_PROGRAMS:
            break
    sites = (call_site_of((stacks.frame(number),)) for number in found.values())
    return frozenset(site.filename.replace("\\", "/").rpartition("/")[2] for site in sites if site.rule == "program")
