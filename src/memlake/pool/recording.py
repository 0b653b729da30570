"""Recordings: a `Recording` writes the operations of a pool to a trace file."""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import ConfigError, InvalidFree, MemlakeError
from memlake.ownership.closable import Scoped

if TYPE_CHECKING:
    from memlake.pool.pool import Pool
    from memlake.trace import Trace
    from memlake.trace.context import Context

__all__ = ["Recording"]

_ENDINGS = (".npz", ".txt", ".parquet")


class Recording(Scoped):
    """Records the operations of a pool as a trace. `Pool.record` starts it; `stop` writes the file.

    ::

        with pool.record("step.npz"):
            train_one_step()
        memlake.compare(memlake.Trace.load("step.npz"), capacity="80GiB")

    The trace begins with the buffers that are live at the start. A recording needs about 30 bytes of memory per
    operation. For `Pool.trim` the trace has the number of bytes that were kept; it does not name the blocks that a
    stream still used. Requests of graph pools have the id of their graph pool as label ``pool_id``; text files have no
    labels. A recording that is open when the process ends is written then. A recording that is dropped is
    written with a ResourceWarning.
    """

    __slots__ = ("__weakref__", "_metadata", "_path", "_pool", "_trace")

    _pool: Pool | None

    def __init__(self, pool: Pool, path: str | os.PathLike[str], metadata: dict[str, Any]) -> None:
        """Use `Pool.record`."""
        self._pool = None
        self._path = Path(path)
        if self._path.suffix not in _ENDINGS:
            raise ConfigError(f"{str(self._path)!r} must end in one of {', '.join(_ENDINGS)}")
        # Checked now: at the end of a long run it would be too late.
        if not self._path.parent.is_dir() or not os.access(self._path.parent, os.W_OK):
            raise ConfigError(f"the folder of {str(self._path)!r} does not exist or cannot be written to")
        if self._path.is_dir():
            raise ConfigError(f"{str(self._path)!r} is a folder; give the name of a file")
        if self._path.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise ConfigError("writing Parquet needs pyarrow: pip install memlake[parquet]")
        self._metadata = metadata
        self._trace: Trace | None = None
        pool._start_recording()
        self._pool = pool
        _open_recordings.add(self)

    @property
    def path(self) -> Path:
        """The file that the trace is written to."""
        return self._path

    @property
    def is_open(self) -> bool:
        """False after stop()."""
        return self._pool is not None

    def stop(self) -> Trace:
        """Ends the recording, writes the file and returns the trace.

        Raises:
            InvalidFree: if the recording was already stopped.
            OSError: if the file cannot be written. The trace is then available as `trace`.
        """
        from memlake.trace import Trace

        if self._pool is None:
            raise InvalidFree("the recording was stopped before")
        op, id_, nbytes, stream, time, pool, pools = self._pool._stop_recording()
        self._pool._state.recording = None
        self._pool = None
        _open_recordings.discard(self)
        self._trace = Trace(
            np.frombuffer(op, np.uint8),
            np.frombuffer(id_, np.uint64),
            np.frombuffer(nbytes, np.uint64),
            np.frombuffer(stream, np.uint32),
            time=np.frombuffer(time, np.int64),
            metadata=self._metadata,
            context=_context_of(np.frombuffer(pool, np.uint32), pools),
        )
        self._trace.save(self._path)
        return self._trace

    @property
    def trace(self) -> Trace | None:
        """The recorded trace; None until the recording is stopped."""
        return self._trace

    def _end_block(self, error: BaseException | None) -> None:
        if self.is_open:
            self.stop()

    def __del__(self) -> None:
        if self._pool is not None:
            self._stop_late()
            if self._trace is not None:
                text = f"the recording {str(self._path)!r} was dropped and not stopped; it was written then"
                warnings.warn(text, ResourceWarning, stacklevel=2)

    def _stop_late(self) -> None:
        """Stops a recording that the program did not stop. A forked child writes nothing; its parent does."""
        with suppress(MemlakeError):
            self.stop()
        self._pool = None


def _context_of(pool: np.ndarray[Any, np.dtype[np.uint32]], pools: list[tuple[int, int]]) -> Context | None:
    """Returns the graph pools of the rows as the label ``pool_id``; None if no row has one."""
    from memlake.trace.context import Context, Label

    if not len(pool):
        return None
    texts = ("", *(str(graph_pool) for graph_pool in pools[1:]))
    return Context(np.zeros(len(pool), np.uint32), labels={"pool_id": Label(pool, texts)})


_open_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for recording in list(_open_recordings):
        recording._stop_late()
