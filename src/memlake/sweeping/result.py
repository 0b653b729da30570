"""The result of a sweep: the figures of every file under every setting, and what holds for all files."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from memlake.jobs.answer import Unreadable, named
from memlake.jobs.comparisons import joint_outcome
from memlake.jobs.labels import missing_numbers
from memlake.jobs.spread import spread_of
from memlake.printable import Printable
from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.jobs.labels import RankFile
    from memlake.jobs.spread import Spread
    from memlake.sweeping.settings import Setting

__all__ = ["Sweep", "SweepFile", "SweepSetting"]

# Policies that no job would use; they are there to compare with.
_FOR_COMPARISON = frozenset({"stitch", "direct"})


@dataclass(frozen=True)
class SweepFile:
    """One file of a sweep.

    Attributes:
        file: the file, with its label.
        digest: the SHA-256 of its content.
        rows: its figures under each setting, in the order of `Sweep.settings`; docs/reference/sweep.md lists the keys.
    """

    file: RankFile
    digest: str
    rows: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def label(self) -> str:
        """The name of the file in tables."""
        return self.file.label

    @property
    def peak_live(self) -> int:
        """The live peak in bytes. No setting can hold less."""
        return int(self.rows[0]["peak_live"])

    @property
    def num_fitting(self) -> int:
        """The number of settings under which the file fits."""
        return sum(row["outcome"] == "ok" for row in self.rows)


@dataclass(frozen=True)
class SweepSetting:
    """One setting on all files.

    Attributes:
        setting: the policy and its device.
        rows: the figures of each file, by its label.
    """

    setting: Setting
    rows: dict[str, dict[str, Any]] = field(repr=False)

    @property
    def outcome(self) -> str:
        """``"ok"`` if every file fits, ``"oom"`` if one does not, ``"unknown"`` if one cannot be decided."""
        return joint_outcome([row["outcome"] for row in self.rows.values()])

    @property
    def failing(self) -> tuple[str, ...]:
        """The labels of the files that run out of memory."""
        return self._with("oom")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The labels of the files that cannot decide it."""
        return self._with("unknown")

    @property
    def held(self) -> Spread | None:
        """The spread of the held peaks of the files that fit."""
        return spread_of({label: row["peak_held"] for label, row in self.rows.items() if row["outcome"] == "ok"})

    @property
    def driver_ms(self) -> float | None:
        """The modelled driver time of the file that has the most; None if it is not modelled."""
        times = [row["modelled_driver_ms"] for row in self.rows.values()]
        return None if None in times else max(times, default=None)

    @property
    def stalls(self) -> int:
        """Retries and waits of the file that has the most."""
        return int(max(row["num_alloc_retries"] + row["host_waits"] for row in self.rows.values()))

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        held = self.held
        return {
            "policy": self.setting.options.name,
            "options": self.setting.options.to_text(),
            "capacity": self.setting.capacity,
            "limit": self.setting.limit,
            "outcome": self.outcome,
            "failing": list(self.failing),
            "undecided": list(self.undecided),
            "peak_held": None if held is None else held.to_json(),
            "driver_ms": self.driver_ms,
            "stalls": self.stalls,
        }

    def _with(self, outcome: str) -> tuple[str, ...]:
        return tuple(label for label, row in self.rows.items() if row["outcome"] == outcome)


@dataclass(frozen=True, kw_only=True)
class Sweep(Printable, table="sweep"):
    """The result of `memlake.sweep`. Iterating yields the files. `print` shows it as ``memlake sweep`` does.

    Attributes:
        files: the files that could be read, in the order of their ranks or names.
        settings: the settings: every policy on every device, the smallest device first.
        events: when events were complete; see `memlake.replay`.
        unreadable: the files that could not be read; they are not part of the result.
        numbered_by: how the numbers of the ranks are known; empty if the labels are names of files.
        num_ignored: how many other files were in the folders.
        ignored: the names of the first of these.
        num_repeated: how often a file was named again.
    """

    files: tuple[SweepFile, ...]
    settings: tuple[Setting, ...]
    events: str
    unreadable: tuple[Unreadable, ...] = ()
    numbered_by: str = ""
    num_ignored: int = 0
    ignored: tuple[str, ...] = ()
    num_repeated: int = 0

    def __iter__(self) -> Iterator[SweepFile]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @property
    def title(self) -> str:
        """What was swept, as a part of a sentence: ``"4 ranks"``, or ``"4 files"``."""
        return counted(len(self.files), "rank" if self.numbered_by else "file")

    @cached_property
    def over_files(self) -> tuple[SweepSetting, ...]:
        """Each setting with the figures of all files; empty if no file could be read."""
        if not self.files:
            return ()
        return tuple(
            SweepSetting(setting, {file.label: file.rows[place] for file in self.files})
            for place, setting in enumerate(self.settings)
        )

    @property
    def serving(self) -> tuple[SweepSetting, ...]:
        """The settings under which every file fits."""
        return tuple(one for one in self.over_files if one.outcome == "ok")

    @property
    def best(self) -> SweepSetting | None:
        """The one setting that serves all files; None if there is none.

        A policy that a job would use comes before one that is there for comparison; then the smallest device decides,
        then the driver time of the worst file, then what is held.
        """

        def key(one: SweepSetting) -> tuple[bool, int, float, int]:
            is_odd = one.setting.options.name in _FOR_COMPARISON
            driver_ms = inf if one.driver_ms is None else one.driver_ms
            return is_odd, one.setting.capacity, driver_ms, one.held.most if one.held else 0

        return min(self.serving, key=key, default=None)

    @property
    def worst(self) -> SweepFile | None:
        """The file that fits under the fewest settings, and of these the one with the most live; None without files."""
        return max(self.files, key=lambda file: (-file.num_fitting, file.peak_live), default=None)

    @property
    def outcome(self) -> str:
        """``"ok"`` if one setting serves all files, else ``"unknown"`` if one may, else ``"oom"``."""
        outcomes = {one.outcome for one in self.over_files}
        return next((outcome for outcome in ("ok", "unknown", "oom") if outcome in outcomes), "unknown")

    @property
    def missing(self) -> list[int]:
        """The numbers of the ranks between the others that have no file."""
        every = [file.file for file in self.files] + [one.file for one in self.unreadable]
        return missing_numbers(every) if self.numbered_by else []

    def __repr__(self) -> str:
        return f"<memlake.Sweep of {self.title} under {counted(len(self.settings), 'setting')}: {self.outcome}>"

    @property
    def sentence(self) -> str:
        """Which setting serves all files, which file is the worst, and what to do, as text."""
        worst = self.worst
        if worst is None:
            return "No file could be read."
        tail = " The files that could not be read may need more." if self.unreadable else ""
        return f"{self._serves()} {self._worst_of(worst)}{tail}"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake sweep --json`` prints, as a dict."""
        best, worst = self.best, self.worst
        return {
            "unreadable": [one.to_json() for one in self.unreadable],
            "num_ignored": self.num_ignored,
            "num_repeated": self.num_repeated,
            "numbered_by": self.numbered_by,
            "missing": self.missing,
            "events": self.events,
            "outcome": self.outcome,
            "best": None if best is None else best.to_json(),
            "worst": None if worst is None else worst.label,
            "settings": [one.to_json() for one in self.over_files],
            "ranks": [
                {
                    "rank": file.file.number,
                    "label": file.label,
                    "file": file.file.path,
                    "sha256": file.digest,
                    "results": list(file.rows),
                }
                for file in self.files
            ],
            "sentence": self.sentence,
        }

    def _serves(self) -> str:
        best = self.best
        total = self.title if len(self.files) == 1 else f"all {self.title}"
        if best is not None:
            odd = best.setting.options.name in _FOR_COMPARISON
            what = ", which is there for comparison and not for a job" if odd else ""
            held = best.held
            most = f": it holds {format_bytes(held.most)} at most ({held.most_rank})" if held else ""
            return f"{best.setting.title} serves {total}{what}{most}."
        tried = counted(len(self.settings), "setting")
        doubtful = next((one for one in self.over_files if one.outcome == "unknown"), None)
        if doubtful is not None:
            return (
                f"It cannot be known whether one of the {tried} serves {total}: {doubtful.setting.title} may, but it "
                f"is not known for {named(doubtful.undecided)}. {doubtful.rows[doubtful.undecided[0]]['sentence']}"
            )
        nearest = min(self.over_files, key=lambda one: (len(one.failing), -one.setting.capacity))
        return (
            f"None of the {tried} serves {total}. The nearest is {nearest.setting.title}, which runs out of memory on "
            f"{len(nearest.failing)} of them ({named(nearest.failing)})."
        )

    def _worst_of(self, worst: SweepFile) -> str:
        fits = f"fits under {worst.num_fitting} of {counted(len(self.settings), 'setting')}"
        who = "It" if len(self.files) == 1 else f"The worst is {worst.file.title}: it"
        return f"{who} {fits} and has {format_bytes(worst.peak_live)} live at its peak."
