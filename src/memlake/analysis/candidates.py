"""The settings of PyTorch's allocators that `advise` tries. The list is bounded and depends only on the trace."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from memlake.policies import CachingOptions, ExpandableOptions, TorchOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memlake.analysis.needs import Need
    from memlake.replaying.result import ReplayResult
    from memlake.trace import JobSettings

__all__ = ["combinations", "is_certain", "single_changes", "what_is_tried"]

_MIB = 2**20
_HAS_LARGE_SEGMENT = (2, 13)  # the version of which memlake knows large_segment_size_mb; older ones may refuse it

_SPLITS = tuple(mib * _MIB for mib in (32, 64, 128, 256, 512, 1024))
_DIVISIONS = (1, 2, 4, 8)
_LARGE_SEGMENTS = tuple(mib * _MIB for mib in (32, 64, 128))
_THRESHOLDS = (0.6, 0.8, 0.9)


def single_changes(settings: JobSettings, needs: Iterable[Need]) -> list[TorchOptions]:
    """Returns both allocators with the job's settings, and with one of the settings changed each, each once."""
    own = settings.policy or CachingOptions()
    given = {field.name: getattr(own, field.name) for field in fields(own)}
    found: list[TorchOptions] = []
    for allocator in (CachingOptions, ExpandableOptions):
        base = allocator(**given)
        if any(need.rules_out(base) for need in needs):
            continue
        changes: list[dict[str, Any]] = [{}, {"roundup_power2_divisions": 0}]
        changes += [{"max_split_size": size} for size in (None, *_SPLITS) if size is None or size >= _large(base)]
        changes += [{"roundup_power2_divisions": number} for number in _DIVISIONS]
        if not settings.torch.is_before(_HAS_LARGE_SEGMENT):
            changes += [{"large_segment_size": size} for size in _LARGE_SEGMENTS if _allows(base, size)]
        if base.memory_fraction < 1:
            changes += [{"garbage_collection_threshold": share} for share in (0.0, *_THRESHOLDS)]
        found += [replace(base, **change) for change in changes]
    return list(dict.fromkeys(found))


def combinations(results: Sequence[ReplayResult], settings: JobSettings) -> list[TorchOptions]:
    """Returns for each allocator the two best single changes of different settings together, if there are two.

    Args:
        results: the replays of `single_changes`, the best first.
        settings: what is known of the job.
    """
    own = settings.policy or CachingOptions()
    given = {field.name: getattr(own, field.name) for field in fields(own)}
    found: list[TorchOptions] = []
    for allocator in (CachingOptions, ExpandableOptions):
        base = allocator(**given)
        best: dict[str, Any] = {}
        for result in results:
            if isinstance(result.options, allocator):
                for name, value in _changed(result.options, base).items():
                    best.setdefault(name, value)
        pairs = [(first, second) for first in best for second in best if first < second]
        for names in pairs:
            change = {name: best[name] for name in names}
            large = change.get("large_segment_size", base.large_segment_size)
            if change.get("max_split_size") is None or change["max_split_size"] >= large:
                found.append(replace(base, **change))
    return list(dict.fromkeys(found))


def is_certain(options: TorchOptions, settings: JobSettings) -> bool:
    """Whether the job's version of PyTorch certainly knows the settings, as far as memlake can tell."""
    own = settings.policy
    is_new = options.large_segment_size != (own or CachingOptions()).large_segment_size
    return not is_new or settings.torch.is_from(_HAS_LARGE_SEGMENT)


def what_is_tried(settings: JobSettings, needs: Sequence[Need]) -> str:
    """Returns what the search tries and what it leaves out, as text."""
    own = settings.policy or CachingOptions()
    tried = ["max_split_size_mb", "roundup_power2_divisions"]
    left = []
    if settings.torch.is_before(_HAS_LARGE_SEGMENT):
        left.append("large_segment_size_mb (the job's PyTorch may not know it)")
    else:
        tried.append("large_segment_size_mb")
    if own.memory_fraction < 1:
        tried.append("garbage_collection_threshold")
    else:
        left.append("garbage_collection_threshold (it acts only with per_process_memory_fraction)")
    both = "without expandable segments" if needs else "with and without expandable segments"
    text = f"Tried {both}: {', '.join(tried)}, each alone and the best values in pairs."
    return text + (f" Left out: {', '.join(left)}." if left else "")


def _changed(options: TorchOptions, base: TorchOptions) -> dict[str, Any]:
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if getattr(options, field.name) != getattr(base, field.name)
    }


def _large(options: TorchOptions) -> int:
    size = options.large_segment_size
    assert isinstance(size, int)
    return size


def _allows(options: TorchOptions, large: int) -> bool:
    """Whether the other settings allow segments of this size: PyTorch refuses to split below it."""
    return all(
        value is None or int(value) >= large for value in (options.max_split_size, options.max_non_split_rounding)
    )
