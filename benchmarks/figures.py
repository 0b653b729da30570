"""What a benchmark measured, as one line for people and one file for comparisons."""

import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Goal:
    """The largest value that is good enough, and what it is a value of."""

    figure: str
    at_most: float


@dataclass(frozen=True)
class Figures:
    """One benchmark's outcome: its numbers in the unit named, the goal among them if it has one, and the raw passes."""

    benchmark: str
    unit: str
    values: Mapping[str, float]
    goal: Goal | None = None
    passes: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def line(self) -> str:
        """All numbers on one line, and whether the goal is met."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        if self.goal is None:
            return f"{self.benchmark}: {values} {self.unit}"
        verdict = "met" if self.values[self.goal.figure] <= self.goal.at_most else "MISSED"
        return f"{self.benchmark}: {values} {self.unit} (goal: {self.goal.figure} <= {self.goal.at_most:g}: {verdict})"

    def write(self, folder: Path = RESULTS) -> Path:
        """Writes the figures with the machine, the date and the commit; returns the file."""
        now = datetime.datetime.now(datetime.timezone.utc)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.benchmark}-{now:%Y%m%dT%H%M%SZ}.json"
        record = {
            "benchmark": self.benchmark,
            "date": now.isoformat(timespec="seconds"),
            "commit": commit(),
            "machine": machine(),
            "unit": self.unit,
            "values": dict(self.values),
            "goal": None if self.goal is None else {"figure": self.goal.figure, "at_most": self.goal.at_most},
            "passes": {name: list(passes) for name, passes in self.passes.items()},
        }
        file.write_text(json.dumps(record, indent=2) + "\n")
        return file


def median(passes: Sequence[float]) -> float:
    """The figure of several passes: robust against the one that was disturbed."""
    return statistics.median(passes)


def machine() -> dict[str, object]:
    """What the figures depend on: processor, cores, memory, kernel, Python."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of the tree, with "+" if files differ from it; empty outside a clone."""
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
