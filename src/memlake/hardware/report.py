"""The report of one GPU: its features, the costs of its driver's calls, and the outcomes of memlake's tests on it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memlake.errors import ConfigError
from memlake.printable import Printable
from memlake.replaying.costs import checked_costs, is_finite_number

__all__ = ["CallCosts", "CopySpeed", "HardwareReport"]

_FORMAT = "memlake hardware report 1"


@dataclass(frozen=True, kw_only=True)
class CallCosts:
    """Microseconds per driver call, for handles of one size. `set_access` and `unmap` are one call over all handles.

    Attributes:
        handle_bytes: the size of each handle.
        handles: how many were made.
        reserve, create, map, set_access, unmap, release, address_free: medians of several runs.
    """

    handle_bytes: int
    handles: int
    reserve: float
    create: float
    map: float
    set_access: float
    unmap: float
    release: float
    address_free: float


@dataclass(frozen=True, kw_only=True)
class CopySpeed:
    """The speed of copies inside the device.

    Attributes:
        handle_bytes: the size of the handles that both ranges are stitched of; 0: plain allocations.
        total_bytes: the size of each range.
        bytes_per_second: the median of several copies.
    """

    handle_bytes: int
    total_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, kw_only=True)
class HardwareReport(Printable, table="hardware"):
    """What was found on one device. `print` shows it as one page.

    Attributes:
        gpu: the name of the device.
        driver_version: the version that the driver reports, for instance 13000.
        memory: the memory of the device in bytes.
        granularity: the allocation granularity in bytes; None without virtual memory management.
        is_emulated: True if the driver is memlake's emulator.
        system: the operating system and memlake's version.
        features: each feature by name: `has`, `source` and `reason`.
        calls: the costs of virtual memory calls by size of the handles; empty without virtual memory management.
        plain: microseconds of ``cuMemAlloc`` and ``cuMemFree``.
        copies: the speed of copies.
        costs: the cost model that follows from the measurements, by the names of core/driver/cost_model.hpp.
        conformance: the report of the conformance cases; empty if they were not run.
        suite: the outcome of each test of memlake's pools on this device; empty if they were not run.
    """

    gpu: str
    driver_version: int
    memory: int
    granularity: int | None
    is_emulated: bool
    system: dict[str, str]
    features: dict[str, dict[str, Any]]
    calls: tuple[CallCosts, ...]
    plain: dict[str, float]
    copies: tuple[CopySpeed, ...]
    costs: dict[str, float]
    conformance: dict[str, Any] = field(default_factory=dict)
    suite: dict[str, str] = field(default_factory=dict)

    @property
    def file_stem(self) -> str:
        """A name for files, for instance ``"hardware-nvidia-a100-13.0"``."""
        gpu = re.sub(r"[^a-z0-9]+", "-", self.gpu.lower()).strip("-")
        return f"hardware-{gpu}-{self.driver_version // 1000}.{self.driver_version % 1000 // 10}"

    def to_json(self) -> dict[str, Any]:
        """Returns the content of the file."""
        return {"format": _FORMAT, **asdict(self)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HardwareReport:
        """Reads a report.

        Raises:
            ConfigError: if the file cannot be read, is not such a report, or has something else where a number, a text
                or an answer should be.
        """
        name = os.fspath(path)
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the report {name!r} cannot be read: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise ConfigError(f"{name!r} is not a report of `make test-gpu` (its format is not {_FORMAT!r})")
        try:
            content["calls"] = tuple(CallCosts(**row) for row in content["calls"])
            content["copies"] = tuple(CopySpeed(**row) for row in content["copies"])
            report = cls(**content)
            _check(report)
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{name!r} is a damaged report: {error}; hint: write it again with memlake doctor --measure"
            ) from None
        checked_costs(report.costs, path)
        return report


def _check(report: HardwareReport) -> None:
    """Raises TypeError or KeyError if a value that the pages show is not what it should be. Costs are checked apart."""
    _check_texts("gpu", {"gpu": report.gpu, **report.system})
    _check_texts("suite", report.suite)
    numbers = {"driver_version": report.driver_version, "memory": report.memory, "granularity": report.granularity or 0}
    _check_numbers("device", numbers)
    _check_numbers("plain", {"alloc": report.plain["alloc"], "free": report.plain["free"]})
    for call in report.calls:
        _check_numbers("calls", asdict(call))
    for copy in report.copies:
        _check_numbers("copies", asdict(copy))
    for name, answer in report.features.items():
        if answer["has"] not in (True, False, None):
            raise TypeError(f"the feature {name!r} is {answer['has']!r}, not true, false or null")
        _check_texts(name, {"source": answer["source"], "reason": answer["reason"]})
    for row in report.conformance.get("differences", []):
        row.get("case")


def _check_texts(where: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name!r} of {where!r} is not a text: {value!r}")


def _check_numbers(where: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not is_finite_number(value):
            raise TypeError(f"{name!r} of {where!r} is not a number of at least 0: {value!r}")
