"""A naive model of memory in stream order: what each call answers, and what the program sees afterwards.

It follows the contract, not the emulator. The order is a set: each operation has the numbers of all operations that
come before it, the host has the numbers of those whose end it has seen. Nothing runs by itself: with `streams=manual`
work runs when somebody waits for it, so queries and bytes can be predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.abi_types import VIOLATION, Result

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_STEP, LARGE_STEP, LARGE_FROM = 512, 2 << 20, 1 << 20
"""What plain memory counts on its device: whole 512 bytes, from 1 MiB on whole 2 MiB."""
RELAXED = 2


@dataclass(eq=False)
class Memory:
    """An allocation that the program has."""

    address: int
    size: int
    is_of_pool: bool
    made: int | None = None  # the operation that allocated it in stream order
    uses: set[int] = field(default_factory=set)
    data: bytearray = field(default_factory=bytearray)

    @property
    def charged(self) -> int:
        """The bytes that plain memory takes from its device."""
        step = SMALL_STEP if self.size < LARGE_FROM else LARGE_STEP
        return -(-self.size // step) * step


@dataclass(eq=False)
class Operation:
    """Something in a stream. Work has an action; a moment, such as the record of an event, is done at once."""

    before: frozenset[int]  # itself included
    action: Callable[[], None] | None
    is_done: bool


@dataclass(eq=False)
class Capture:
    """A capture of one stream: the nodes of its graph so far."""

    mode: int
    nodes: list[Node] = field(default_factory=list)
    is_spoilt: bool = False


@dataclass(eq=False)
class Node:
    """Work that a graph will queue."""

    action: Callable[[], None]
    memories: tuple[Memory, ...] = ()
    tells_host: bool = False


@dataclass(eq=False)
class Stream:
    """A stream of the program, or the legacy default stream."""

    is_blocking: bool
    is_legacy: bool = False
    is_destroyed: bool = False
    before: frozenset[int] = frozenset()
    capture: Capture | None = None


class StreamModel:
    """Each method is a call: it returns the code that the driver must answer, and changes the model if that is 0."""

    def __init__(self, is_strict: bool, capacity: int) -> None:
        self.is_strict = is_strict
        self.capacity = capacity
        self.violations = 0
        self.operations: list[Operation] = []
        self.seen: set[int] = set()
        self.legacy = Stream(is_blocking=True, is_legacy=True)
        self.streams = [self.legacy]
        self.memories: list[Memory] = []
        self.leaving: list[Memory] = []  # plain memory that a stream has not come to the free of
        self.host_calls: list[int] = []

    # -- order --------------------------------------------------------------------------------------------------------

    def _before(self, stream: Stream) -> frozenset[int]:
        """What comes before the next operation. The legacy stream and the blocking streams wait for each other."""
        return stream.before.union(*self._of_pairs(stream))

    def _of_pairs(self, stream: Stream) -> list[frozenset[int]]:
        return [
            other.before
            for other in self.streams
            if stream.is_blocking and other.is_blocking and stream.is_legacy != other.is_legacy
        ]

    def _add(self, stream: Stream, action: Callable[[], None] | None, is_done: bool) -> int:
        number = len(self.operations)
        before = self._before(stream) | {number}
        self.operations.append(Operation(before, action, is_done))
        stream.before = before
        return number

    def _queue(self, stream: Stream, action: Callable[[], None] | None) -> int:
        return self._add(stream, action, is_done=False)

    def _moment(self, stream: Stream) -> int:
        """It waits only for what the default-stream rules demand."""
        others = frozenset[int]().union(*self._of_pairs(stream))
        if any(not self.operations[number].is_done for number in others):
            return self._queue(stream, None)
        is_seen = self._before(stream) <= self.seen
        number = self._add(stream, None, is_done=True)
        if is_seen:
            self.seen.add(number)
        return number

    def _is_idle(self, stream: Stream) -> bool:
        return all(self.operations[number].is_done for number in self._before(stream))

    def _run(self, numbers: frozenset[int]) -> None:
        """Later operations have larger numbers, so this order respects all others. The host has seen them then."""
        for number in sorted(numbers):
            operation = self.operations[number]
            if not operation.is_done:
                operation.is_done = True
                if operation.action is not None:
                    operation.action()
        self.seen |= numbers

    def _comes_after(self, stream: Stream, numbers: set[int]) -> bool:
        return numbers <= self.seen | self._before(stream)

    def _violation(self) -> int:
        self.violations += 1
        return int(VIOLATION)

    # -- captures -----------------------------------------------------------------------------------------------------

    def forbids(self) -> bool:
        """Whether a capture forbids an unsafe call; that call spoils it."""
        captures = [s.capture for s in self.streams if s.capture is not None and s.capture.mode != RELAXED]
        for capture in captures:
            capture.is_spoilt = True
        return bool(captures)

    def refuses(self, stream: Stream) -> int:
        """The answer to a call that a capturing stream cannot take."""
        if stream.capture is None:
            return 0
        if stream.capture.is_spoilt:
            return int(Result.STREAM_CAPTURE_INVALIDATED)
        stream.capture.is_spoilt = True
        return int(Result.STREAM_CAPTURE_UNSUPPORTED)

    def begin_capture(self, stream: Stream, mode: int) -> int:
        """cuStreamBeginCapture of a stream that does not capture."""
        stream.capture = Capture(mode)
        return 0

    def end_capture(self, stream: Stream) -> tuple[int, list[Node]]:
        """cuStreamEndCapture: the answer and the nodes of the graph."""
        if stream.capture is None:
            return int(Result.ILLEGAL_STATE), []
        capture, stream.capture = stream.capture, None
        if capture.is_spoilt:
            return int(Result.STREAM_CAPTURE_INVALIDATED), []
        return 0, capture.nodes

    # -- memory -------------------------------------------------------------------------------------------------------

    def alloc(self, size: int) -> int:
        """cuMemAlloc; `allocated` gets the address."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        if size == 0:
            return int(Result.INVALID_VALUE)
        return int(Result.OUT_OF_MEMORY) if size > self.capacity else 0

    def allocated(self, address: int, size: int, data: bytes, stream: Stream | None) -> Memory:
        """The call before succeeded. `stream`: the memory is of a pool, in the order of this stream."""
        made = None if stream is None else self._moment(stream)
        memory = Memory(address, size, stream is not None, made, data=bytearray(data))
        self.memories.append(memory)
        return memory

    def find(self, address: int, size: int = 1) -> Memory | None:
        """The memory that has the whole range."""
        inside = (m for m in self.memories if m.address <= address and address + size <= m.address + m.size)
        return next(inside, None)

    def alloc_async(self, stream: Stream, size: int) -> int:
        """cuMemAllocAsync outside of captures. What a driver answers to 0 bytes is not known."""
        return 0 if size else int(Result.INVALID_VALUE)

    def free(self, address: int) -> int:
        """cuMemFree. It waits for the device, unless the memory is of a pool."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        memory = self.find(address)
        if address == 0:
            return 0
        if memory is None or memory.address != address:
            return int(Result.INVALID_VALUE)
        if memory.is_of_pool:
            if self.is_strict and not memory.uses <= self.seen:
                return self._violation()
        else:
            self._run(frozenset(range(len(self.operations))))
        self.memories.remove(memory)
        return 0

    def free_async(self, stream: Stream, address: int) -> int:
        """cuMemFreeAsync outside of captures: the stream must come after all that uses the memory."""
        memory = self.find(address)
        if memory is None or memory.address != address:
            return int(Result.INVALID_VALUE)
        needed = memory.uses | (set() if memory.made is None else {memory.made})
        if self.is_strict and not self._comes_after(stream, needed):
            return self._violation()
        self.memories.remove(memory)
        if self._is_idle(stream):
            self._moment(stream)
        elif memory.is_of_pool:
            self._queue(stream, None)
        else:
            self.leaving.append(memory)
            self._queue(stream, lambda: self.leaving.remove(memory))
        return 0

    def is_racy_free(self, stream: Stream | None, address: int) -> bool:
        """Whether the free comes before work that uses the memory. Only strict devices have an answer to that."""
        memory = self.find(address)
        if memory is None or (stream is None and not memory.is_of_pool):
            return False
        needed = memory.uses | (set() if memory.made is None else {memory.made})
        return not (needed <= self.seen if stream is None else self._comes_after(stream, needed))

    # -- work ---------------------------------------------------------------------------------------------------------

    def work(self, stream: Stream, ranges: list[tuple[int, int]], action: Callable[[], None]) -> int:
        """Copies and fills of these ranges, given as address and size."""
        if any(size == 0 for _, size in ranges):
            return 0
        if stream.capture is not None and stream.capture.is_spoilt:
            return int(Result.STREAM_CAPTURE_INVALIDATED)
        memories = [self.find(address, size) for address, size in ranges]
        if any(memory is None for memory in memories):
            return int(Result.INVALID_VALUE)
        found = tuple(memory for memory in memories if memory is not None)
        if stream.capture is not None:
            stream.capture.nodes.append(Node(action, found))
            return 0
        made = {memory.made for memory in found if memory.made is not None}
        if self.is_strict and not self._comes_after(stream, made):
            return self._violation()
        self._use(found, self._queue(stream, action))
        return 0

    @staticmethod
    def _use(memories: tuple[Memory, ...], number: int) -> None:
        for memory in memories:
            memory.uses.add(number)

    def is_race(self, stream: Stream, *addresses: int) -> bool:
        """Whether work of other streams uses the memory, and nothing orders it before this stream."""
        found = [self.find(address) for address in addresses]
        if self.is_strict and self.is_racy_use(stream, *addresses):
            return False  # that is refused
        uses = {number for memory in found if memory is not None for number in memory.uses}
        return not self._comes_after(stream, uses)

    def is_racy_use(self, stream: Stream, *addresses: int) -> bool:
        """Whether the stream uses memory that another stream has allocated, without an order."""
        found = [self.find(address) for address in addresses]
        made = {memory.made for memory in found if memory is not None and memory.made is not None}
        return not self._comes_after(stream, made)

    def fill(self, stream: Stream, address: int, value: int, size: int) -> int:
        """cuMemsetD8Async."""
        return self.work(stream, [(address, size)], self.filling(address, value, size))

    def filling(self, address: int, value: int, size: int) -> Callable[[], None]:
        """What a fill does when it runs. The memory is found now: afterwards another one may have the address."""
        memory = self.find(address, size)
        return lambda: self._store(memory, address, bytes([value]) * size)

    def copy(self, stream: Stream, to: int, source: int, size: int) -> int:
        """cuMemcpyDtoDAsync."""
        return self.work(stream, [(to, size), (source, size)], self.copying(to, source, size))

    def copying(self, to: int, source: int, size: int) -> Callable[[], None]:
        """What a copy does when it runs."""
        target, origin = self.find(to, size), self.find(source, size)
        return lambda: self._store(target, to, self._load(origin, source, size))

    @staticmethod
    def _store(memory: Memory | None, address: int, data: bytes) -> None:
        if memory is not None:
            memory.data[address - memory.address : address - memory.address + len(data)] = data

    @staticmethod
    def _load(memory: Memory | None, address: int, size: int) -> bytes:
        assert memory is not None
        return bytes(memory.data[address - memory.address : address - memory.address + size])

    def write(self, stream: Stream, address: int, data: bytes) -> int:
        """cuMemcpyHtoDAsync of pageable memory, outside of captures: the bytes are taken at the call."""
        memory = self.find(address, len(data))
        return self.work(stream, [(address, len(data))], lambda: self._store(memory, address, data))

    def read(self, stream: Stream, address: int, size: int) -> tuple[int, bytes]:
        """cuMemcpyDtoHAsync to pageable memory, outside of captures: it returns when the bytes are there."""
        code = self.work(stream, [(address, size)], lambda: None)
        if code or size == 0:
            return code, b""
        self._run(stream.before)
        return 0, self._load(self.find(address, size), address, size)

    def call_host(self, stream: Stream, number: int) -> int:
        """cuLaunchHostFunc. The function, when it runs, knows that the work before it is done."""
        if stream.capture is not None and stream.capture.is_spoilt:
            return int(Result.STREAM_CAPTURE_INVALIDATED)
        if stream.capture is not None:
            stream.capture.nodes.append(Node(lambda: self.host_calls.append(number), tells_host=True))
            return 0
        self._queue_host(stream, lambda: self.host_calls.append(number))
        return 0

    def _queue_host(self, stream: Stream, action: Callable[[], None]) -> None:
        queued = len(self.operations)

        def run() -> None:
            self.seen |= self.operations[queued].before
            action()

        self._queue(stream, run)

    def launch(self, stream: Stream, nodes: list[Node]) -> int:
        """cuGraphLaunch outside of captures: the nodes are work of the stream, one after another."""
        for node in nodes:
            if node.tells_host:
                self._queue_host(stream, node.action)
            else:
                self._use(node.memories, self._queue(stream, node.action))
        return 0

    # -- waiting ------------------------------------------------------------------------------------------------------

    def synchronize(self, stream: Stream) -> int:
        """cuStreamSynchronize."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        if code := self.refuses(stream):
            return code
        self._run(self._before(stream))
        return 0

    def query(self, stream: Stream) -> int:
        """cuStreamQuery."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        if code := self.refuses(stream):
            return code
        if not self._is_idle(stream):
            return int(Result.NOT_READY)
        self.seen |= self._before(stream)
        return 0

    def synchronize_all(self) -> int:
        """cuCtxSynchronize while no relaxed capture is under way."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        self._run(frozenset(range(len(self.operations))))
        return 0

    def record(self, stream: Stream) -> frozenset[int]:
        """cuEventRecord outside of captures: what comes before the event."""
        self._moment(stream)
        return stream.before

    def wait_event(self, stream: Stream, recorded: frozenset[int]) -> int:
        """cuStreamWaitEvent outside of captures."""
        if not recorded:
            return 0  # it was never recorded
        is_pending = any(not self.operations[number].is_done for number in recorded)
        stream.before |= recorded
        if is_pending:
            self._queue(stream, None)
        else:
            self._moment(stream)
        return 0

    def query_event(self, recorded: frozenset[int]) -> int:
        """cuEventQuery."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        if any(not self.operations[number].is_done for number in recorded):
            return int(Result.NOT_READY)
        self.seen |= recorded
        return 0

    def synchronize_event(self, recorded: frozenset[int]) -> int:
        """cuEventSynchronize."""
        if self.forbids():
            return int(Result.STREAM_CAPTURE_UNSUPPORTED)
        self._run(recorded)
        return 0

    # -- sums ---------------------------------------------------------------------------------------------------------

    @property
    def plain_bytes(self) -> int:
        """The bytes that plain memory takes from the device."""
        return sum(memory.charged for memory in (*self.memories, *self.leaving) if not memory.is_of_pool)

    @property
    def pool_bytes(self) -> int:
        """The bytes of the pool in use: whole blocks of 512 bytes. Strict pools begin 256 bytes behind a block's start,
        because more is not promised."""
        offset = 256 if self.is_strict else 0
        return sum(-(-(memory.size + offset) // 512) * 512 for memory in self.memories if memory.is_of_pool)
