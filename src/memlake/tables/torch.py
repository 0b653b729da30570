"""The tables of memlake inside PyTorch: what it holds, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from memlake.tables.outcomes import OUTCOMES
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake.analysis import Comparison
    from memlake.pool.stats import PoolStats
    from memlake.replaying import ReplayResult

__all__ = ["page_of"]

_NAMES = {"caching": "PyTorch, native", "expandable": "PyTorch, expandable segments"}


class _Report(Protocol):
    """`memlake.torch.TorchReport`, which is of a higher floor."""

    @property
    def installation(self) -> Any: ...
    @property
    def stats(self) -> Mapping[int, PoolStats]: ...
    @property
    def before(self) -> Comparison | None: ...


def page_of(report: _Report) -> Page:
    """Returns the pools of all devices, then the comparison if there is one."""
    installed, stats, comparison = report.installation, report.stats, report.before
    page = Page()
    if installed is None:
        page.line("memlake is not PyTorch's allocator in this process.")
    else:
        page.line(f"memlake is PyTorch's allocator ({installed.configuration}, by the {installed.door}).")
    if stats:
        page.line()
        headers = ("device", "live", "held", "live peak", "held peak", "retries", "refused", "driver ms")
        page.table(headers, [_device(device, figures) for device, figures in stats.items()])
    elif installed is not None:
        page.line("No device has had a tensor yet.")
    if comparison is not None:
        page.line()
        page.paragraph(
            f"The same {comparison.num_rows} requests on a device of {format_bytes(comparison.capacity)}, replayed; "
            f"live peak {format_bytes(comparison.peak_live)}:"
        )
        page.line()
        page.table(
            ("allocator", "outcome", "held peak", "beyond live", "retries", "driver ms"),
            [_line(result, comparison.peak_live) for result in comparison],
            left=2,
        )
    return page


def _device(device: int, stats: PoolStats) -> tuple[str, ...]:
    names = ("allocated", "held", "allocated_peak", "held_peak")
    return (
        f"cuda:{device}",
        *(format_bytes(getattr(stats, name)) for name in names),
        str(stats.num_alloc_retries),
        str(stats.num_ooms),
        f"{stats.modelled_driver_ms:.1f}",
    )


def _line(result: ReplayResult, live: int) -> tuple[str, ...]:
    modelled = result.modelled_driver_ms
    return (
        _NAMES.get(result.policy, f"memlake, {result.label}"),
        OUTCOMES[result.outcome],
        format_bytes(result.peak_held),
        format_bytes(result.peak_held - live) if result.outcome == "ok" else "-",
        str(result.num_alloc_retries),
        "-" if modelled is None else f"{modelled:.1f}",
    )
