"""Graph pools: a `GraphPool` is the memory of captured CUDA graphs inside a pool."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from memlake.errors import ClosedError, InvalidFree, MemlakeError
from memlake.ownership.closable import Scoped
from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from memlake.device.stream import StreamLike
    from memlake.pool.pool import Pool

__all__ = ["GraphPool"]


class GraphPool(Scoped):
    """The memory of one captured CUDA graph, or of several graphs that share it. `Pool.graph_pool` makes it.

    ::

        graph_memory = pool.graph_pool()
        with graph_memory:
            ...                       # begin the capture
            buffer = pool.allocate("1GiB", stream=stream)
            ...                       # end the capture
        ...                           # launch the graph, as often as needed
        graph_memory.close()          # after the last launch

    A graph uses the addresses that it saw during its capture at every launch. So the memory of a graph pool keeps its
    addresses and its chunks, and serves no request outside the graph pool, until the last graph gives it up; also
    memory that was freed during the capture. Inside the graph pool, memory that was freed serves later requests of the
    same stream. A buffer that is closed after the capture goes back to its graph pool.

    Each ``with`` block stands for one graph. If an exception leaves the block, the graph is given up again. Graphs that
    share a graph pool must run one after another, because each may overwrite what another left in the memory.

    An ``async with`` block takes the requests of the thread: also those of other tasks that run while it awaits.

    An object that is dropped without `close` does not release the memory, because its graphs may still be launched. The
    memory then stays held until the pool is closed.
    """

    __slots__ = ("_entries", "_handle", "_id", "_is_open", "_pool", "_stream")

    def __init__(self, pool: Pool, stream: StreamLike, handle: int | None) -> None:
        """Use `Pool.graph_pool`."""
        self._pool = pool
        self._stream = stream  # kept alive: its handle names it
        self._handle = handle
        self._id = pool._make_graph_pool_id()
        self._entries: list[tuple[int, int]] = []  # a thread, and the number of what it began
        self._is_open = True

    @property
    def pool(self) -> Pool:
        """The pool that the memory belongs to."""
        return self._pool

    @property
    def id(self) -> tuple[int, int]:
        """Two numbers that name it in its pool. Snapshots and traces show them."""
        return self._id

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._is_open

    @property
    def use_count(self) -> int:
        """How many graphs share it: the ``with`` blocks so far, without those that gave it up."""
        return self._stats()[0]

    @property
    def held(self) -> int:
        """The physical memory that it holds, in bytes. It is a part of `PoolStats.held` and of the limit."""
        return self._stats()[2]

    @property
    def live(self) -> int:
        """The bytes of its buffers that are not closed, rounding included."""
        return self._stats()[3]

    @property
    def live_peak(self) -> int:
        """The largest value of `live`."""
        return self._stats()[4]

    def release(self) -> None:
        """One graph gives the memory up: it was launched for the last time.

        After the last graph, this waits for the devices of the pool, and the free memory goes back to the driver. If a
        capture on one of the devices forbids the wait, the memory goes back later, when the pool is short of memory.
        Buffers that are still open stay valid.

        Raises:
            InvalidFree: if no graph uses it, or if the last graph gives it up while requests go there.
        """
        uses, begun = self._stats()[:2]
        if uses <= 1 and begun:
            raise InvalidFree(f"{self!r} {self._why_in_use('release')}")
        self._pool._release_graph_pool(*self._id)

    def close(self) -> None:
        """All its graphs give the memory up; see `release`. It cannot be used again.

        Raises:
            InvalidFree: if it was closed before, or while requests go there: by a ``with`` block, or by a C function.
        """
        if not self._is_open:
            raise InvalidFree(f"{self!r} was closed before")
        uses, begun = self._stats()[:2] if self._pool.is_open else (0, 0)
        if begun:
            raise InvalidFree(f"{self!r} {self._why_in_use('close')}")
        self._is_open = False
        for _ in range(uses):
            self._pool._release_graph_pool(*self._id)

    def __enter__(self) -> Self:
        if not self._is_open:
            raise ClosedError(f"{self!r} is closed; make another one with pool.graph_pool()")
        self._entries.append((get_ident(), self._pool._begin_graph_requests(*self._id, self._handle)))
        return self

    def _end_block(self, error: BaseException | None) -> None:
        self._end_requests()
        self._give_up_after(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        self._end_requests()  # by the thread that entered the block
        await asyncio.to_thread(self._give_up_after, error)

    def _end_requests(self) -> None:
        if not self._entries:
            raise InvalidFree(f"{self!r} has no with block that could end")
        # The latest block of this thread; a block that another thread ends is the latest one of all.
        own = [index for index, (thread, _) in enumerate(self._entries) if thread == get_ident()]
        _, number = self._entries.pop(own[-1] if own else -1)
        self._pool._end_graph_requests(number)

    def _why_in_use(self, action: str) -> str:
        if self._entries:
            return f"is in use by a with block; {action} it after the block"
        return f"gets requests since memlake_pool_begin_graph(); {action} it after memlake_pool_end_graph()"

    def _give_up_after(self, error: BaseException | None) -> None:
        if error is not None and self._pool.is_open:
            self._pool._release_graph_pool(*self._id)

    def _stats(self) -> tuple[int, int, int, int, int]:
        return self._pool._graph_pool_stats(*self._id)

    def __repr__(self) -> str:
        try:
            uses, _, held, live, _ = self._stats()
        except MemlakeError:  # the pool or its device is closed
            return f"GraphPool({self._id}, without memory)"
        return f"GraphPool({self._id}, {counted(uses, 'graph')}, {format_bytes(held)} held, {format_bytes(live)} live)"
