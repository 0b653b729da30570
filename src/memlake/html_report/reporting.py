"""Reports: one page about one file, the ranks of a job, or the difference of two files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from memlake.analysis import diff
from memlake.analysis.chosen_policies import chosen_policies
from memlake.errors import ConfigError, TraceError
from memlake.html_report.blobs import Blobs
from memlake.html_report.document import document_of
from memlake.html_report.file_report import FileReport, ReportWishes, file_report
from memlake.html_report.writing import write_whole
from memlake.jobs import ranks
from memlake.trace import Trace

if TYPE_CHECKING:
    from memlake.analysis import Diff
    from memlake.jobs import Ranks
    from memlake.policies import Options
    from memlake.units import Size

__all__ = ["Report", "report", "report_of_diff", "report_of_ranks", "report_of_trace"]

Progress = Callable[[int, int], None]

_WITH_MAP = 4
"""So many files get an address map; more would make the page too large. The others get everything else."""
_SPANS = 600_000
_SAMPLES = 8192
_MOST_ROWS = 100


@dataclass(frozen=True)
class Report:
    """A page about one or several files.

    Attributes:
        files: the files, the worst first; in the given order for a difference.
        title: the title of the page.
        sentence: what holds for all files, as text; empty for one file.
        unreadable: why files could not be read, one sentence each.
        difference: what grew from the first file to the second; None unless it was asked for.
    """

    files: tuple[FileReport, ...]
    title: str
    sentence: str = ""
    unreadable: tuple[str, ...] = ()
    difference: Diff | None = None
    _blobs: Blobs = field(default_factory=Blobs, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Returns what the page shows as a dict, without the columns of its charts and maps."""
        return {
            "title": self.title,
            "sentence": self.sentence,
            "unreadable": list(self.unreadable),
            "files": [_without_blobs(one.figures) for one in self.files],
            "diff": None if self.difference is None else self.difference.to_json(),
        }

    def to_html(self) -> str:
        """Returns the whole page. Every text from a file in it is escaped."""
        data = {
            "title": self.title,
            "sentence": self.sentence,
            "unreadable": list(self.unreadable),
            "files": [one.figures for one in self.files],
            "diff": None if self.difference is None else _shown(self.difference),
        }
        return document_of(self.title, data, self._blobs, [_plain(one) for one in self.files])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file: the whole page, or nothing.

        Raises:
            ConfigError: if the file cannot be written.
        """
        write_whole(path, self.to_html().encode())


def report(
    traces: Trace | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    capacity: Size | None = None,
    policies: Iterable[str | Options] | str | Options | None = None,
    *,
    events: str = "immediate",
    limit: Size | None = None,
    reserve: Size | None = None,
    progress: Progress | None = None,
) -> Report:
    """Makes a page about a file, or about the files of a job.

    Args:
        traces: a trace or the path of a file; or several paths, folders and patterns, for the ranks of a job.
        capacity: the memory of the device, as a size or as the name of a GPU such as ``"a100-80gb"``. None: the
            capacity that the file gives or implies.
        policies: names, PyTorch's configuration strings, or options. None: what the job ran under, and every other
            policy.
        events: when memory that another stream used becomes free; see `memlake.replay`.
        limit: the most that each policy may hold.
        reserve: what to subtract from the memory of a named GPU for the CUDA context. None: 512 MiB.
        progress: called with the number of finished parts of the work and of all parts.

    Raises:
        ConfigError: if an argument cannot be used, or a file has nothing to report.
        TraceError: if no file is a trace. If there is no such file, it is also a FileNotFoundError.
    """
    chosen = None if policies is None else chosen_policies(policies)
    wishes = ReportWishes(capacity, reserve, limit, events, chosen)
    if isinstance(traces, Trace | str | os.PathLike) and not _is_folder(traces):
        trace, name = (traces, "trace") if isinstance(traces, Trace) else (Trace.load(traces), _short(traces))
        return report_of_trace(trace, name, wishes, progress)
    names = [traces] if isinstance(traces, str | os.PathLike) else list(traces)  # type: ignore[arg-type]
    return report_of_ranks(ranks([os.fspath(name) for name in names]), wishes, progress)


def report_of_trace(trace: Trace, name: str, wishes: ReportWishes, progress: Progress | None = None) -> Report:
    """Makes a page about one trace.

    Raises:
        ConfigError: if an argument cannot be used, or the trace has nothing to report.
    """
    blobs = Blobs()
    return Report((file_report(trace, name, wishes, blobs, progress),), name, _blobs=blobs)


def report_of_ranks(job: Ranks, wishes: ReportWishes, progress: Progress | None = None) -> Report:
    """Makes a page about the files of a job, the worst first. A file that cannot be read is named on the page."""
    blobs = Blobs()
    joint = job.advise(
        wishes.capacity, events=wishes.events, limit=wishes.limit, reserve=wishes.reserve, progress=progress
    )
    unreadable = [one.reason for one in joint.unreadable]
    order = sorted(joint.ranks, key=lambda one: (one.result.own.ran, -one.result.own.peak_held))
    capacities = {one.label: one.result.comparison.capacity for one in joint.ranks}
    files = []
    for place, rank in enumerate(order):
        has_map = place < _WITH_MAP
        own = replace(
            wishes,
            capacity=capacities[rank.label],
            reserve=None,
            has_map=has_map,
            most_spans=_SPANS // min(len(order), _WITH_MAP),
            samples=_SAMPLES if len(order) <= _WITH_MAP else max(_SAMPLES // len(order), 256),
        )
        try:
            trace = Trace.load(rank.file.path, device=job.device)
            files.append(file_report(trace, rank.file.title, own, blobs))
        except (ConfigError, TraceError) as error:
            unreadable.append(str(error))
        if progress is not None:
            progress(place + 1, len(order))
    if not files:
        raise ConfigError(f"no file can be reported: {unreadable[0]}")
    files.sort(key=lambda one: one.badness, reverse=True)
    return Report(tuple(files), joint.title, joint.sentence, tuple(unreadable), _blobs=blobs)


def report_of_diff(
    before: Trace,
    after: Trace,
    names: tuple[str, str] = ("A", "B"),
    wishes: ReportWishes | None = None,
    progress: Progress | None = None,
) -> Report:
    """Makes a page about two files and what grew from the first to the second.

    Raises:
        ConfigError: if an argument cannot be used, or a file has nothing to report.
    """
    blobs = Blobs()
    wishes = replace(wishes or ReportWishes(), most_spans=_SPANS // 2)
    difference = diff(before, after, any_device=True)
    difference = replace(difference, a=replace(difference.a, name=names[0]), b=replace(difference.b, name=names[1]))
    files = tuple(
        file_report(trace, name, wishes, blobs, progress) for trace, name in zip((before, after), names, strict=True)
    )
    return Report(files, f"{names[0]} and {names[1]}", difference.sentence, (), difference, blobs)


def _shown(found: Diff) -> dict[str, Any]:
    """Returns what the page shows of a difference: the call sites that grew the most, and that shrank the most."""
    whole = found.to_json()
    for growth in (whole["peak"], whole["end"]):
        if growth is not None and len(growth["rows"]) > 2 * _MOST_ROWS:
            growth["rows"] = growth["rows"][:_MOST_ROWS] + growth["rows"][-_MOST_ROWS:]
    return {name: whole[name] for name in ("a", "b", "peak", "end", "sentence", "notes")}


def _plain(one: FileReport) -> tuple[str, str]:
    """Returns the name of a file, and its tables as HTML for readers without scripts."""
    return one.name, one.overview.to_html() + one.comparison.to_html() + one.advice.to_html()


def _without_blobs(value: Any) -> Any:
    """Returns JSON values without the references to blobs, which mean nothing outside the page."""
    if isinstance(value, dict):
        return {
            key: _without_blobs(item) for key, item in value.items() if not (isinstance(item, dict) and "blob" in item)
        }
    return [_without_blobs(item) for item in value] if isinstance(value, list) else value


def _is_folder(path: object) -> bool:
    try:
        return isinstance(path, str | os.PathLike) and os.path.isdir(path)  # noqa: PTH112  takes any name
    except ValueError:
        return False


def _short(path: str | os.PathLike[str]) -> str:
    return PurePath(os.fspath(path)).name
