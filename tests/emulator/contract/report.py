"""The result of a whole run: every row of every case, as a table for people and a file for the repository."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.contract.expectations import Row


@dataclass
class Report:
    """What one driver answered to all cases."""

    gpu: str
    driver_version: int
    rows: Counter[Row] = field(default_factory=Counter)
    outcomes: dict[str, dict[str, str]] = field(default_factory=dict)

    def note_outcome(self, test: str, outcome: str, reason: str) -> None:
        """How a test ended. A skipped or failed one has a reason; the worst of its phases counts. A test that stays
        `started` took the whole process with it."""
        order = ["started", "passed", "skipped", "failed"]
        known = self.outcomes.get(test, {"outcome": "started", "reason": ""})
        if order.index(outcome) >= order.index(known["outcome"]):
            self.outcomes[test] = {"outcome": outcome, "reason": reason or known["reason"]}

    def file_name(self) -> str:
        """conformance-<gpu>-<driver>.json"""
        gpu = re.sub(r"[^a-z0-9]+", "-", self.gpu.lower()).strip("-")
        return f"conformance-{gpu}-{self.driver_version // 1000}.{self.driver_version % 1000 // 10}.json"

    def as_json(self) -> dict[str, Any]:
        """Everything, sorted by case, so that two reports can be compared with diff."""
        return {
            "gpu": self.gpu,
            "driver_version": self.driver_version,
            "differences": [asdict(row) for row in self.differences()],
            "tests": dict(sorted(self.outcomes.items())),
            "rows": [asdict(row) for row in sorted(self.rows, key=lambda row: row.case)],
        }

    def write(self, folder: Path) -> Path:
        """Writes the file and says where."""
        path = folder / self.file_name()
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")
        return path

    def differences(self) -> list[Row]:
        """The rows in which driver and contract disagree, by case."""
        return sorted((row for row in self.rows if not row.agrees), key=lambda row: row.case)

    def lines(self) -> list[str]:
        """The table of differences."""
        differences = self.differences()
        asked = f"{self.gpu}, driver {self.driver_version}: {self.rows.total()} questions"
        if not differences:
            return [f"{asked}, no difference from the contract"]
        header = ("case", "label", "expected", "got", "what")
        table = [header] + [
            (str(r.case or r.test), r.label, _short(r.expected), _short(r.got), r.what) for r in differences
        ]
        widths = [max(len(line[column]) for line in table) for column in range(len(header) - 1)]
        return [f"{asked}, {len(differences)} differences from the contract"] + [
            "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=False)] + [line[-1]])
            for line in table
        ]


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
