"""What a benchmark measured, as one line for people and one file for comparisons."""

import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


class SkippedError(Exception):
    """Why a benchmark cannot be run here."""


@dataclass(frozen=True)
class Figure:
    """One number, the unit it is in, and the passes it is the median of."""

    value: float
    unit: str
    passes: Sequence[float] = ()

    @classmethod
    def median(cls, passes: Sequence[float], unit: str) -> "Figure":
        """The figure of several passes: the one in the middle, so that a disturbed pass does not count."""
        return cls(statistics.median(passes), unit, passes)

    def __str__(self) -> str:
        """Four digits are more than a benchmark knows."""
        return f"{self.value:.4g} {self.unit}"


@dataclass(frozen=True)
class Goal:
    """Which figure must be at most how large, in its own unit."""

    figure: str
    at_most: float


@dataclass(frozen=True)
class Figures:
    """One benchmark's outcome: its figures by name, and its goal among them."""

    benchmark: str
    figures: Mapping[str, Figure]
    goal: Goal

    def line(self) -> str:
        """All figures on one line, and whether the goal is met."""
        listed = ", ".join(f"{name} {figure}" for name, figure in self.figures.items())
        verdict = "met" if self.figures[self.goal.figure].value <= self.goal.at_most else "MISSED"
        return f"{self.benchmark}: {listed} (goal: {self.goal.figure} <= {self.goal.at_most:g}: {verdict})"

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
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "goal": asdict(self.goal),
        }
        file.write_text(json.dumps(record, indent=2) + "\n")
        return file


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
