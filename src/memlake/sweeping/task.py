"""The work of a sweep on one file: a pure function of the content of the file and of the settings.

A task and its answer travel as JSON. A worker of a cluster can thus take them before it knows whether its memlake is
the right one.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake.analysis.doubt import doubt_of_own
from memlake.errors import MemlakeError
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run
from memlake.sweeping.digests import digest_of
from memlake.sweeping.settings import Setting
from memlake.trace import Trace, TraceFileError

if TYPE_CHECKING:
    from memlake.replaying import ReplayResult

__all__ = ["ROW_VERSION", "Answer", "Task", "answer_text", "key_of"]

ROW_VERSION = 1
"""The version of the rows. It is a part of every key, so that rows of another version are not taken for these."""


@dataclass(frozen=True)
class Task:
    """A file and the settings under which to replay it.

    Attributes:
        path: the file on the machine that started the sweep.
        digest: the SHA-256 of its content.
        device: the device of a snapshot; None: the one with the most events.
        events: when events are complete; see `memlake.replay`.
        settings: the settings.
    """

    path: str
    digest: str
    device: int | None
    events: str
    settings: tuple[Setting, ...]

    def to_text(self) -> str:
        """Returns the task as JSON."""
        return json.dumps(vars(self) | {"settings": [setting.to_json() for setting in self.settings]})

    @classmethod
    def of_text(cls, text: str) -> Task:
        """Makes a task of what `to_text` returned."""
        given = json.loads(text)
        return cls(**given | {"settings": tuple(map(Setting.of_json, given["settings"]))})


@dataclass(frozen=True)
class Answer:
    """The answer to a task.

    Attributes:
        rows: the figures under each setting, in their order; empty if the file could not be read.
        error: why the file could not be read, as a sentence that names the file; empty if it could.
        needs_content: whether the worker has no such file and must be sent its content.
    """

    rows: tuple[dict[str, Any], ...] = ()
    error: str = ""
    needs_content: bool = False

    @classmethod
    def of_text(cls, text: str) -> Answer:
        """Makes an answer of what `answer_text` returned."""
        given = json.loads(text)
        return cls(tuple(given["rows"]), given["error"], given["needs_content"])


def key_of(basis: str, digest: str, device: int | None, events: str, setting: dict[str, Any]) -> str:
    """Returns what a result is known by: equal for equal content of the file, equal settings and an equal basis.

    Args:
        basis: the code and the costs behind the result; see `memlake.sweeping.basis`.
        digest: the SHA-256 of the content of the file.
        device: the device of a snapshot.
        events: when events are complete.
        setting: the policy and its device, as `Setting.to_json` returned it.
    """
    parts = [ROW_VERSION, basis, digest, device, events, setting]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def answer_text(text: str, content: bytes | None = None) -> str:
    """Does a task and returns its answer as JSON.

    Args:
        text: the task, as `Task.to_text` returned it.
        content: the content of the file. None: the worker reads the file by its path, if it has the right content.
    """
    answer = _answer_of(Task.of_text(text), content)
    return json.dumps(vars(answer), allow_nan=False)


def _answer_of(task: Task, content: bytes | None) -> Answer:
    try:
        if content is None:
            if digest_of(task.path) != task.digest:
                return Answer(needs_content=True)
            trace = Trace.load(task.path, device=task.device)
        else:
            trace = _trace_of(task, content)
    except OSError:
        return Answer(needs_content=True)
    except MemlakeError as error:
        return Answer(error=str(error))
    if trace.num_allocations == 0:
        hint = "was the history recorded before the program allocated, and is it the right --device?"
        reason = "has no allocations, so there is nothing to replay"
        return Answer(error=str(TraceFileError(reason, task.path, hint=hint)))
    return Answer(tuple(_rows_of(trace, task)))


def _trace_of(task: Task, content: bytes) -> Trace:
    """Reads the content of a file that is on another machine. Errors name that file."""
    if hashlib.sha256(content).hexdigest() != task.digest:
        raise changed(task.path)
    with tempfile.TemporaryDirectory(prefix="memlake-sweep-") as folder:
        copy = Path(folder, "trace")
        copy.write_bytes(content)
        try:
            return Trace.load(copy, device=task.device)
        except TraceFileError as error:
            raise TraceFileError(error.reason, task.path, error.place, error.hint, error.row) from None


def changed(path: str) -> TraceFileError:
    """Returns the error for a file that has another content than at the beginning of the sweep."""
    return TraceFileError(
        "changed during the sweep", path, hint="run the sweep again when the program that writes it has finished"
    )


def _rows_of(trace: Trace, task: Task) -> list[dict[str, Any]]:
    mode = EventMode.parse(task.events)
    # Asked once: it is a replay of its own, and the same for all settings.
    lacks = doubt_of_own(trace, mode) if trace.oom is not None else ""
    died_on = 0 if trace.oom is None else trace.oom.capacity or 0
    rows = []
    for setting in task.settings:
        result = run(trace, setting.options, setting.capacity, mode, setting.limit)
        # As in a comparison: if the replay of what the job ran under is wrong, the others lack the same.
        if result.ran and setting.capacity <= died_on and lacks:
            result = replace(result, doubt=result.doubt or lacks)
        rows.append(_row_of(result))
    return rows


def _row_of(result: ReplayResult) -> dict[str, Any]:
    """Returns the figures that are the same on every machine: all but the CPU time."""
    return {
        "policy": result.policy,
        "options": result.options.to_text(),
        "capacity": result.capacity,
        "limit": result.limit,
        "events": result.events,
        "outcome": result.outcome,
        "peak_live": result.peak_live,
        "peak_requested": result.peak_requested,
        "peak_allocated": result.peak_allocated,
        "peak_held": result.peak_held,
        "utilization": result.utilization,
        "failed_event": result.failed_event,
        "num_ooms": result.num_ooms,
        "num_alloc_retries": result.num_alloc_retries,
        "host_waits": result.host_waits,
        "memory_calls": result.num_memory_calls,
        "modelled_driver_ms": result.modelled_driver_ms,
        "longest_request_ms": result.longest_request_ms,
        "approximate": result.approximate,
        "rows": result.num_rows,
        "history": result.history.kind,
        "sentence": result.sentence,
    }
