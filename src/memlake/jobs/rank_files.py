"""Jobs of several ranks: one snapshot per rank, and answers for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis.chosen_policies import chosen_policies
from memlake.analysis.needs import chosen_needs
from memlake.analysis.overview import told_device
from memlake.errors import ConfigError, MemlakeError, TraceError
from memlake.jobs.advice import JobAdvice
from memlake.jobs.answer import Rank, Unreadable
from memlake.jobs.asking import Question, RankAnswer
from memlake.jobs.comparisons import JobComparison
from memlake.jobs.facts import differences_of
from memlake.jobs.files import FoundFiles, find_files
from memlake.jobs.fits import JobFit
from memlake.jobs.joint_device import joint_device
from memlake.jobs.joint_setting import joint_settings
from memlake.jobs.joint_size import joint_sizes
from memlake.jobs.labels import RankFile, labelled
from memlake.jobs.overviews import JobOverview
from memlake.jobs.processes import Workers
from memlake.replaying.capacity import GRID, capacity_of, limit_of
from memlake.replaying.event_mode import EventMode
from memlake.trace import Trace

if TYPE_CHECKING:
    from memlake.policies import Options
    from memlake.units import Size

__all__ = ["Ranks", "ranks"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Ranks:
    """The files of a job, one per rank, in the order of their ranks. Nothing is read before a question is asked.

    Each file is analysed in one of several worker processes, at most one per core, so no more than that many traces
    are in memory at once.

    Attributes:
        files: the files with their labels.
        numbered_by: how the numbers of the ranks are known; empty if the labels are names of files.
        found: how the files were found, and what was left out.
        device: the device of each snapshot; None: the one with the most events.
    """

    files: tuple[RankFile, ...]
    numbered_by: str
    found: FoundFiles
    device: int | None = None

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[RankFile]:
        return iter(self.files)

    def __getitem__(self, place: int) -> RankFile:
        """Returns a file by its place, not by the number of its rank."""
        return self.files[place]

    def overview(
        self,
        *,
        capacity: Size | None = None,
        reserve: Size | None = None,
        steps: bool = True,
        progress: Progress | None = None,
    ) -> JobOverview:
        """Describes what each file tells about its rank; see `memlake.analysis.overview`.

        Args:
            capacity: the memory of the whole device of each rank, to tell memory outside PyTorch apart.
            reserve: what the CUDA context takes of it.
            steps: whether to look for steps.
            progress: called after each file with the number of finished files and of all files.

        Raises:
            ConfigError: if an argument cannot be used.
            TraceError: if no file can be read.
        """
        told_device(capacity, reserve)  # a misspelt size is reported before large files are read
        arguments = {"capacity": capacity, "reserve": reserve, "steps": steps}
        with Workers() as workers:
            return JobOverview(**self._ask(workers, "overview", arguments, progress))

    def compare(
        self,
        capacity: Size | None = None,
        policies: Iterable[str | Options] | str | Options | None = None,
        *,
        events: str = "immediate",
        limit: Size | None = None,
        reserve: Size | None = None,
        progress: Progress | None = None,
    ) -> JobComparison:
        """Replays each rank under several policies; see `memlake.compare`. A policy fits if it fits on every rank.

        Without a capacity all ranks of a job get the same device: the smallest that a file tells, or else the largest
        that a file implies.

        Args:
            capacity: the memory of the device of each rank.
            policies: as for `memlake.compare`.
            events: as for `memlake.compare`.
            limit: as for `memlake.compare`.
            reserve: as for `memlake.compare`.
            progress: called after each file with the number of finished files and of all files.

        Raises:
            ConfigError: if an argument cannot be used.
            TraceError: if no file can be read.
        """
        _check(capacity, reserve, limit, events)
        chosen = None if policies is None else chosen_policies(policies)
        arguments = {"policies": chosen, "events": events, "limit": limit, "reserve": reserve}
        with Workers() as workers:
            size, origin = self._device(workers, capacity, progress)
            asked = self._ask(workers, "compare", arguments | {"capacity": size}, progress)
        ranks: tuple[Rank[Any], ...] = asked["ranks"]
        return JobComparison(**asked, origin=origin or ranks[0].result.origin if size is not None else "")

    def fit(
        self,
        policies: Iterable[str | Options] | str | Options | None = None,
        *,
        events: str = "immediate",
        progress: Progress | None = None,
    ) -> JobFit:
        """Finds the smallest device of each policy that serves every rank; see `memlake.fit`.

        The smallest device of a rank need not be one on which every other rank runs, because fitting is not strictly
        monotonous. So the largest one is replayed on every rank, and a few larger sizes if one of them does not run.

        Args:
            policies: as for `memlake.fit`.
            events: as for `memlake.fit`.
            progress: called after each file with the number of finished files and of all files.

        Raises:
            ConfigError: if an argument cannot be used.
            TraceError: if no file can be read.
        """
        EventMode.parse(events)
        chosen = None if policies is None else chosen_policies(policies)
        with Workers() as workers:
            found = JobFit(**self._ask(workers, "fit", {"policies": chosen, "events": events}, progress))
            if not found.is_one_job:
                return found
            return JobFit(**vars(found) | {"policies": joint_sizes(found.ranks, self._replayer(workers, events, None))})

    def advise(
        self,
        capacity: Size | None = None,
        *,
        needs: Iterable[str] | str = (),
        events: str = "immediate",
        limit: Size | None = None,
        reserve: Size | None = None,
        progress: Progress | None = None,
    ) -> JobAdvice:
        """Searches PyTorch's settings for one that holds for every rank; see `memlake.advise`.

        Args:
            capacity: the memory of the device of each rank. None: as for `compare`.
            needs: as for `memlake.advise`.
            events: as for `memlake.advise`.
            limit: as for `memlake.advise`.
            reserve: as for `memlake.advise`.
            progress: called after each file with the number of finished files and of all files.

        Raises:
            ConfigError: if an argument cannot be used.
            TraceError: if no file can be read.
        """
        _check(capacity, reserve, limit, events)
        needed = tuple(need.name for need in chosen_needs(needs))
        arguments = {"needs": needed, "events": events, "limit": limit, "reserve": reserve}
        with Workers() as workers:
            size, origin = self._device(workers, capacity, progress)
            asked = self._ask(workers, "advise", arguments | {"capacity": size}, progress)
            ranks: tuple[Rank[Any], ...] = asked["ranks"]
            origin = origin or ranks[0].result.comparison.origin if size is not None else ""
            advice = JobAdvice(**asked, origin=origin)
            if not advice.is_one_job or not all(one.result.tried for one in advice.ranks):
                return advice
            return JobAdvice(**vars(advice) | joint_settings(advice.ranks, self._replayer(workers, events, limit)))

    def _device(self, workers: Workers, capacity: Size | None, progress: Progress | None) -> tuple[Size | None, str]:
        """Returns the device of all ranks and where its size comes from. None: each file has a device of its own."""
        if capacity is not None or len(self.files) == 1:
            return capacity, ""
        asked = self._ask(workers, "device", {}, progress)
        if asked["differences"]:
            return None, ""
        return joint_device(asked["ranks"])

    def _ask(self, workers: Workers, kind: str, arguments: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        """Asks every file and returns the arguments of a `JobAnswer`."""
        question = Question(kind, self.device, arguments)
        answers = workers.ask_all([file.path for file in self.files], question, progress)
        ranks = []
        bad = []
        for file, answer in zip(self.files, answers, strict=True):
            if isinstance(answer, RankAnswer):
                ranks.append(Rank[Any].of(file, answer))
            else:
                bad.append((file, answer))
        if not ranks:
            raise _nothing_read([error for _, error in bad])
        return {
            "ranks": tuple(ranks),
            "unreadable": tuple(Unreadable(file, str(error)) for file, error in bad),
            "differences": differences_of({rank.label: rank.facts for rank in ranks}),
            "numbered_by": self.numbered_by,
            "num_ignored": self.found.num_ignored,
            "ignored": tuple(self.found.ignored),
            "num_repeated": self.found.num_repeated,
        }

    def _replayer(
        self, workers: Workers, events: str, limit: Size | None
    ) -> Callable[..., list[RankAnswer | MemlakeError]]:
        """Returns a function that replays files under given pairs of options and capacities."""

        def replay(paths: Sequence[str], pairs: Sequence[tuple[Options, int]]) -> list[RankAnswer | MemlakeError]:
            arguments = {"pairs": tuple(pairs), "events": events, "limit": limit}
            return workers.ask_all(paths, Question("replays", self.device, arguments))

        return replay


def ranks(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, device: int | None = None) -> Ranks:
    """Finds the files of a job that has one snapshot per rank.

    Args:
        files: a folder, a pattern such as ``"run/rank*.pickle"``, or several files, folders and patterns.
        device: the device of each snapshot. None: the one with the most events.

    Raises:
        ConfigError: if a folder or a pattern has no snapshots, or a name cannot be used.
        TraceError: if there is no such file, which is also a FileNotFoundError, or a folder cannot be read.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise ConfigError(f"files must be paths, got {type(one).__name__}")
    found = find_files(given)
    labels, numbered_by = labelled(found.paths)
    return Ranks(labels, numbered_by, found, device)


def _check(capacity: Size | None, reserve: Size | None, limit: Size | None, events: str) -> None:
    """Checks arguments before large files are read."""
    EventMode.parse(events)
    is_given = capacity is not None or reserve is not None  # a reserve alone is refused there
    size = capacity_of(_nothing(), capacity, reserve).nbytes if is_given else GRID
    limit_of(limit, None, size)


def _nothing() -> Trace:
    return Trace((), (), ())


def _nothing_read(errors: Sequence[MemlakeError]) -> MemlakeError:
    """Returns the error for files of which none can be read."""
    if len(errors) == 1 or len({str(error) for error in errors}) == 1:
        return errors[0]
    return TraceError(f"none of the {len(errors)} files can be read; the first: {errors[0]}")
