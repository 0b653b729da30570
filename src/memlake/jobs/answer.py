"""What all answers for a job of several ranks have: the ranks, the files that could not be read, and the spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memlake.jobs.labels import missing_numbers, repeated_numbers
from memlake.jobs.spread import spread_of
from memlake.printable import Printable
from memlake.wording import counted, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memlake.analysis import Reproduction
    from memlake.jobs.asking import RankAnswer
    from memlake.jobs.facts import JobFacts
    from memlake.jobs.labels import RankFile
    from memlake.jobs.spread import Spread
    from memlake.trace import History

__all__ = ["JobAnswer", "Rank", "Unreadable", "named"]

T = TypeVar("T")

_MOST_NAMED = 6


@dataclass(frozen=True, kw_only=True)
class Rank(Generic[T]):
    """One rank of a job, and the answer of its file.

    Attributes:
        file: the file, with its label.
        facts: what the file tells about its job.
        history: how much of the job's life the file records.
        num_rows: the number of rows of the trace.
        num_steps: the number of steps of the trace.
        peak_live: the live peak in bytes; what was live at the moment of the snapshot, if the file has no history.
        held_peak: the most that PyTorch itself held in the recorded part; None if the file does not tell.
        result: what the same question about this file alone returns.
    """

    file: RankFile
    facts: JobFacts = field(repr=False)
    history: History
    num_rows: int
    num_steps: int
    peak_live: int
    held_peak: int | None
    result: T = field(repr=False)

    @classmethod
    def of(cls, file: RankFile, answer: RankAnswer) -> Rank[T]:
        """Makes a rank of a file and its answer."""
        return cls(
            file=file,
            facts=answer.facts,
            history=answer.history,
            num_rows=answer.num_rows,
            num_steps=answer.num_steps,
            peak_live=answer.peak_live,
            held_peak=answer.held_peak,
            result=answer.result,
        )

    @property
    def label(self) -> str:
        """The name of the rank in tables."""
        return self.file.label


@dataclass(frozen=True)
class Unreadable:
    """A file of the job that could not be read.

    Attributes:
        file: the file.
        reason: why, as a sentence that names the file.
    """

    file: RankFile
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Returns the label, the number, the file and the reason as a dict."""
        return {"rank": self.file.number, "label": self.file.label, "file": self.file.path, "reason": self.reason}


@dataclass(frozen=True, kw_only=True)
class JobAnswer(Printable, Generic[T]):
    """An answer for a job of several ranks. Iterating yields the ranks, in the order of their numbers or names.

    `print` shows it as the command of the same name does.

    Attributes:
        ranks: the ranks whose files could be read.
        unreadable: the files that could not be read; they are not part of the answer.
        differences: what differs between the files if they are of different jobs; empty if they can be of one.
        numbered_by: how the numbers of the ranks are known; empty if the labels are names of files.
        num_ignored: how many other files were in the folders.
        ignored: the names of the first of these.
        num_repeated: how often a file was named again.
    """

    ranks: tuple[Rank[T], ...]
    unreadable: tuple[Unreadable, ...] = ()
    differences: tuple[str, ...] = ()
    numbered_by: str = ""
    num_ignored: int = 0
    ignored: tuple[str, ...] = ()
    num_repeated: int = 0

    def __iter__(self) -> Iterator[Rank[T]]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, rank: int | str) -> Rank[T]:
        """Returns a rank by its number or by its label.

        Raises:
            KeyError: if there is none, or if several files have this number.
        """
        found = [one for one in self.ranks if one.label == rank or (isinstance(rank, int) and one.file.number == rank)]
        if len(found) != 1:
            raise KeyError(rank)
        return found[0]

    @property
    def title(self) -> str:
        """What it is an answer for, as a part of a sentence: ``"4 ranks"``, or ``"4 files"``."""
        return counted(len(self.ranks), "rank" if self.numbered_by else "file")

    @property
    def is_one_job(self) -> bool:
        """False if the files are certainly of different jobs. Then there is no answer for all of them together."""
        return not self.differences

    @property
    def live(self) -> Spread | None:
        """The spread of the live peaks; without files that have no history."""
        return spread_of({one.label: one.peak_live for one in self.ranks if one.history.kind != "state"})

    @property
    def held(self) -> Spread | None:
        """The spread of what PyTorch itself held at its peaks, of the files that tell it."""
        return spread_of({one.label: one.held_peak for one in self.ranks})

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about the files: other jobs, missing and repeated ranks, how ranks are numbered."""
        return tuple(filter(None, [self._other_jobs, self._files, self._repeated, self._missing, self._numbering]))

    @property
    def verification(self) -> str:
        """How well replays of what the job ran under reproduce the files, as a sentence; empty without snapshots."""
        checked = {one.label: check for one in self.ranks if (check := self.reproduction_of(one)) is not None}
        if not checked:
            return ""
        exact = [check.verification for check in checked.values() if check.is_exact and check.verification]
        inexact = [label for label, check in checked.items() if not check.is_exact]
        addresses = f"{sum(one.num_allocations for one in exact):,}"
        if not inexact:
            return f"Verified: all {addresses} addresses of {counted(len(exact), 'file')} are equal."
        some = f"Verified for {counted(len(exact), 'file')} ({addresses} addresses equal). " if exact else ""
        reason = (
            checked[inexact[0]].sentence.removesuffix("; the figures are estimates.").removeprefix("Not verified: ")
        )
        what = "" if len(inexact) == 1 else "of the first: "
        return f"{some}The figures of {counted(len(inexact), 'file')} ({named(inexact)}) are estimates; {what}{reason}."

    def reproduction_of(self, rank: Rank[T]) -> Reproduction | None:
        """Returns how well a replay of what a rank ran under reproduces its file; None if it is no snapshot."""
        found: Reproduction | None = getattr(rank.result, "reproduction", None)
        return found

    @property
    def _other_jobs(self) -> str:
        if not self.differences:
            return ""
        what = "; ".join(self.differences)
        return f"These files are of different jobs, so each is answered for itself. They differ in: {what}."

    @property
    def _files(self) -> str:
        bad = len(self.unreadable)
        if not bad:
            return ""
        names = named([one.file.label for one in self.unreadable])
        return f"{counted(bad, 'file')} could not be read and {plural(bad, 'is', 'are')} not in the answer: {names}."

    @property
    def _repeated(self) -> str:
        repeated = repeated_numbers([one.file for one in self.ranks])
        if not repeated:
            return ""
        ranks = named([str(number) for number in repeated])
        who = f"{plural(len(repeated), 'Rank')} {ranks} {plural(len(repeated), 'has', 'have')}"
        return f"{who} more than one file; each file is a line, and the answer holds for all of them."

    @property
    def _missing(self) -> str:
        files = [one.file for one in self.ranks] + [one.file for one in self.unreadable]
        missing = missing_numbers(files) if self.numbered_by and self.is_one_job else []
        if not missing:
            return ""
        what = plural(len(missing), "rank")
        return f"There is no file of {what} {named([str(number) for number in missing])}."

    @property
    def _numbering(self) -> str:
        return f"Ranks are numbered by {self.numbered_by}." if self.numbered_by.startswith("the last") else ""

    def names_of(self, labels: Sequence[str]) -> str:
        """Returns ranks for a sentence: ``"rank 3"``, ``"ranks 3, 4"``, or names of files."""
        return f"{plural(len(labels), 'rank')} {named(labels)}" if self.numbered_by else named(labels)

    def head_to_json(self) -> dict[str, Any]:
        """Returns what the JSON objects of all answers begin with, as a dict."""
        return {
            "unreadable": [one.to_json() for one in self.unreadable],
            "num_ignored": self.num_ignored,
            "num_repeated": self.num_repeated,
            "numbered_by": self.numbered_by,
            "is_one_job": self.is_one_job,
            "differences": list(self.differences),
            "spread": {"peak_live": _json(self.live), "held_peak": _json(self.held)},
            "verification": self.verification,
            "notes": list(self.notes),
        }

    def ranks_to_json(self, of: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns one dict per rank: its label, its number, its file, and its own result."""
        return [
            {"rank": one.file.number, "label": one.label, "file": one.file.path} | of(one.result) for one in self.ranks
        ]


def named(labels: Sequence[str]) -> str:
    """Joins labels for a sentence; of many only the first."""
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + more


def _json(spread: Spread | None) -> dict[str, Any] | None:
    return None if spread is None else spread.to_json()
