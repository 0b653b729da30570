"""The page of a hardware report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.hardware import HardwareReport

__all__ = ["page_of"]

_WORDS = {True: "yes", False: "no", None: "not known"}


def page_of(report: HardwareReport) -> Page:
    """Returns the device, its features, the costs of calls, the speed of copies, and the outcomes of tests."""
    page = Page()
    version = f"CUDA {report.driver_version // 1000}.{report.driver_version % 1000 // 10}"
    page.line(f"{report.gpu}, {format_bytes(report.memory)}, {version}{', emulated' * report.is_emulated}")
    page.line(", ".join(f"{name} {value}" for name, value in report.system.items()))
    page.line()
    rows = [
        (name, _WORDS[answer["has"]], answer["source"], answer["reason"]) for name, answer in report.features.items()
    ]
    page.table(("feature", "has", "asked by", "why not"), rows, left=4)
    page.line()
    if report.calls:
        names = ("reserve", "create", "map", "set_access", "unmap", "release", "address_free")
        costs = [
            (f"{call.handles} x {format_bytes(call.handle_bytes)}", *(f"{getattr(call, name):.2f}" for name in names))
            for call in report.calls
        ]
        page.table(("microseconds per call", *names), costs)
    page.line(f"cuMemAlloc {report.plain['alloc']:.2f} us, cuMemFree {report.plain['free']:.2f} us")
    page.line()
    speeds = [
        (
            f"in handles of {format_bytes(copy.handle_bytes)}" if copy.handle_bytes else "contiguous",
            format_bytes(copy.total_bytes),
            f"{copy.bytes_per_second / 1e9:.2f}",
        )
        for copy in report.copies
    ]
    page.table(("copies inside the device", "size", "GB/s"), speeds)
    page.line()
    if report.conformance:
        page.line(
            f"conformance: {len(report.conformance.get('rows', []))} questions, "
            f"{len(report.conformance.get('differences', []))} differences from the contract"
        )
    if report.suite:
        counts = Counter(outcome.split(":")[0] for outcome in report.suite.values())
        page.line(f"memlake's tests: {', '.join(f'{number} {outcome}' for outcome, number in sorted(counts.items()))}")
    return page
