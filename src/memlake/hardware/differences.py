"""How a hardware report differs from what the emulator and the cost model assume."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from memlake.device.features import without_of
from memlake.emulator.config import EmulatorConfig
from memlake.printable import Printable
from memlake.replaying.costs import default_costs
from memlake.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.hardware.report import HardwareReport

__all__ = ["Difference", "Differences", "compare_report"]

# The emulator's usual device has all other features. It is not asked here, because the environment of this process may
# change its answers (MEMLAKE_FEATURES, the driver version of MEMLAKE_EMULATOR).
_LACKING = frozenset({"fabric_handles"})
# What the labels of the contract say about an expectation.
_LABELS = {
    "D": "documented by NVIDIA",
    "O": "observed on another driver",
    "I": "inferred",
    "U": "not known",
}
# A measured cost differs if it is more than so many times the modelled one, or less than the same part of it.
_FACTOR = 2.0
# Stitched memory is assumed to be as fast as contiguous memory; copies vary by a few percent.
_SLOWER = 0.9


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        topic: ``"feature"``, ``"device"``, ``"cost"``, ``"copy"``, ``"contract"`` or ``"suite"``.
        name: what differs.
        assumed: what memlake assumes.
        found: what the report says.
        meaning: what follows from it; empty if the report says no more.
    """

    topic: str
    name: str
    assumed: str
    found: str
    meaning: str = ""


@dataclass(frozen=True)
class Differences(Printable, table="hardware_differences"):
    """The differences of one report, by topic. `print` shows them as ``memlake doctor --compare`` does."""

    report: HardwareReport
    found: tuple[Difference, ...]

    def __repr__(self) -> str:
        return f"<memlake.Differences: {self.report.gpu}, {len(self.found)} differences>"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake doctor --compare FILE --json`` prints, as a dict."""
        return {
            "gpu": self.report.gpu,
            "driver_version": self.report.driver_version,
            "differences": [asdict(difference) for difference in self.found],
        }


def compare_report(report: HardwareReport) -> Differences:
    """Compares a report with the emulator's usual device and with the cost model of this process."""
    found = (*_features(report), *_costs(report), *_copies(report), *_contract(report), *_suite(report))
    return Differences(report, found)


def assumed_features() -> dict[str, bool]:
    """Returns each feature by name, and whether the emulator's usual device has it. The environment changes nothing."""
    return {name: name not in _LACKING for name in without_of()}


def assumed_granularity() -> int:
    """Returns the granularity of the emulator's usual device in bytes."""
    return parse_bytes(str(EmulatorConfig().granularity))


def _features(report: HardwareReport) -> Iterator[Difference]:
    words = {True: "yes", False: "no", None: "not known"}
    unknown = {"has": None, "reason": "the report does not say"}
    has_virtual_memory = report.features.get("virtual_memory", unknown)["has"]
    for name, has in assumed_features().items():
        answer = report.features.get(name, unknown)
        if answer["has"] == has:
            continue
        if answer["has"]:
            meaning = "the emulator lacks it by default"
        elif has_virtual_memory or name == "virtual_memory":
            meaning = f"{answer['reason']}; {without_of()[name]}"
        else:
            meaning = answer["reason"]  # pools do without all memory that the feature is about
        yield Difference(topic="feature", name=name, assumed=words[has], found=words[answer["has"]], meaning=meaning)
    granularity = assumed_granularity()
    if report.granularity is not None and report.granularity != granularity:
        yield Difference(
            topic="device",
            name="granularity",
            assumed=format_bytes(granularity),
            found=format_bytes(report.granularity),
            meaning="replays use another granularity than the device",
        )


def _costs(report: HardwareReport) -> Iterator[Difference]:
    for name, modelled in default_costs().items():
        measured = report.costs.get(name)
        if measured is None or modelled / _FACTOR <= measured <= modelled * _FACTOR:
            continue
        yield Difference(
            topic="cost",
            name=name,
            assumed=f"{modelled:.2f} us",
            found=f"{measured:.2f} us",
            meaning="pass the report to replays with --costs",
        )


def _copies(report: HardwareReport) -> Iterator[Difference]:
    contiguous = next((copy.bytes_per_second for copy in report.copies if copy.handle_bytes == 0), None)
    for copy in report.copies:
        if contiguous is None or copy.handle_bytes == 0 or copy.bytes_per_second >= contiguous * _SLOWER:
            continue
        yield Difference(
            topic="copy",
            name=f"stitched in handles of {format_bytes(copy.handle_bytes)}",
            assumed=f"{contiguous / 1e9:.1f} GB/s, as contiguous memory",
            found=f"{copy.bytes_per_second / 1e9:.1f} GB/s",
            meaning="memory of small handles is slower here",
        )


def _contract(report: HardwareReport) -> Iterator[Difference]:
    for row in report.conformance.get("differences", []):
        yield Difference(
            topic="contract",
            name=f"{_case(row)}: {row.get('what', '?')}",
            assumed=str(row.get("expected", "")),
            found=str(row.get("got", "")),
            meaning=f"the emulator answers as assumed, which is {_certainty(str(row.get('label', '')))}",
        )


def _case(row: dict[str, Any]) -> str:
    """Returns the number of a numbered case, or else the name of the test."""
    return f"case {row['case']}" if row.get("case") else str(row.get("test") or "a test without a number")


def _certainty(label: str) -> str:
    return " or ".join(_LABELS.get(letter, f"labelled {letter!r}") for letter in label.split("/"))


def _suite(report: HardwareReport) -> Iterator[Difference]:
    for name, outcome in report.suite.items():
        if outcome.startswith(("failed", "error")):
            yield Difference(topic="suite", name=name, assumed="passed", found=outcome)
