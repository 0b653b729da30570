"""The page of a sweep: a heat map by file and setting, the worst file, the one setting that serves all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.analysis.setting import NOT_ON_A_GPU, install_line
from memlake.html_report.blobs import Blobs
from memlake.html_report.document import sweep_document_of
from memlake.html_report.writing import write_whole
from memlake.policies import TorchOptions
from memlake.tables.sweep import outcome_on_all
from memlake.trace import JobSettings
from memlake.units import format_bytes

if TYPE_CHECKING:
    import os

    from memlake.sweeping import Setting, Sweep, SweepSetting

__all__ = ["SweepReport", "report_of_sweep"]

_OUTCOMES = {"ok": 0, "oom": 1, "unknown": 2}
_MOST_SENTENCES = 8 * 2**20
"""So many bytes of sentences are in a page; a sweep with more has its figures only."""


@dataclass(frozen=True)
class SweepReport:
    """A page about a sweep.

    Attributes:
        sweep: the sweep.
        title: the title of the page.
    """

    sweep: Sweep
    title: str

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why files could not be read, one sentence each."""
        return tuple(one.reason for one in self.sweep.unreadable)

    def to_json(self) -> dict[str, Any]:
        """Returns what the page shows as a dict: that of ``memlake sweep --json``, with the title."""
        return {"title": self.title} | self.sweep.to_json()

    def to_html(self) -> str:
        """Returns the whole page. Every text from a file in it is escaped."""
        blobs = Blobs()
        data = _figures(self.sweep, self.title, blobs)
        return sweep_document_of(self.title, data, blobs, self.sweep.to_html())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file: the whole page, or nothing.

        Raises:
            ConfigError: if the file cannot be written.
        """
        write_whole(path, self.to_html().encode(errors="replace"))


def report_of_sweep(found: Sweep, title: str = "") -> SweepReport:
    """Makes a page about a sweep.

    Args:
        found: what `memlake.sweep` or `memlake.sweeping.load_sweep` returned.
        title: the title of the page; empty: what was swept.
    """
    return SweepReport(found, title or found.title)


def _figures(found: Sweep, title: str, blobs: Blobs) -> dict[str, Any]:
    best, worst = found.best, found.worst
    settings = list(found.over_files)
    rows = [row for file in found.files for row in file.rows]
    sentences = "\n".join(" ".join(row["sentence"].split()) for row in rows).encode(errors="replace")
    line, note = ("", "") if best is None else _line_of(best.setting)
    return {
        "title": title,
        "sentence": found.sentence,
        "outcome": found.outcome,
        "unreadable": [one.reason for one in found.unreadable],
        "best": None if best is None else settings.index(best),
        "best_sentence": _best_sentence(best),
        "best_line": line,
        "best_note": note,
        "worst": None if worst is None else found.files.index(worst),
        "settings": [_setting(one) for one in settings],
        "files": [
            {
                "title": file.file.title,
                "path": file.file.path,
                "peak_live": file.peak_live,
                "num_fitting": file.num_fitting,
                "rows": file.rows[0]["rows"],
                "history": file.rows[0]["history"],
            }
            for file in found.files
        ],
        "cells": blobs.add(
            {
                "outcome": np.array([_OUTCOMES[row["outcome"]] for row in rows], np.uint8),
                "held": _column(rows, "peak_held", np.float64),
                "failed": _column(rows, "failed_event", np.float64),
                "driver": _column(rows, "modelled_driver_ms", np.float32),
                "retries": _column(rows, "num_alloc_retries", np.float64),
                "waits": _column(rows, "host_waits", np.float64),
                "calls": _column(rows, "memory_calls", np.float64),
            }
        ),
        "sentences": blobs.add({"text": np.frombuffer(sentences, np.uint8)})
        if len(sentences) <= _MOST_SENTENCES
        else None,
    }


def _column(rows: list[dict[str, Any]], name: str, kind: type[np.floating[Any]]) -> np.ndarray[Any, Any]:
    """Returns a column as numbers; -1 stands for a cell without one."""
    return np.array([-1 if row[name] is None else row[name] for row in rows], kind)


def _setting(one: SweepSetting) -> dict[str, Any]:
    held = one.held
    limit = one.setting.limit
    return {
        "policy": one.setting.options.name,
        "label": one.setting.options.label + ("" if limit is None else f", limit {format_bytes(limit)}"),
        "description": one.setting.options.summary,
        "capacity": one.setting.capacity,
        "outcome": one.outcome,
        "on_all": outcome_on_all(one),
        "held": None if held is None else [held.least, held.median, held.most],
        "driver_ms": one.driver_ms,
        "stalls": one.stalls,
    }


def _best_sentence(best: SweepSetting | None) -> str:
    if best is None:
        return "None of the settings serves every file."
    held = best.held
    most = "" if held is None else f": every file fits, and at most {format_bytes(held.most)} are held"
    return f"{best.setting.title}{most}."


def _line_of(setting: Setting) -> tuple[str, str]:
    """Returns the line that makes PyTorch use a setting, and what to know about it; empty if there is none."""
    options = setting.options
    limit = "" if setting.limit is None else f"; the sweep let it hold {format_bytes(setting.limit)} at most"
    if isinstance(options, TorchOptions):
        job = JobSettings()  # of torch, nothing is known
        return job.line_for(options), job.note_for(options) + limit
    if options.name == "lake":
        return install_line(options.configuration if options.to_text() else ""), NOT_ON_A_GPU + limit
    return "", ""
