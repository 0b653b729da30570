"""Does the steps of a random program to a driver and to the model, and compares every answer.

A step is a name and three numbers. The numbers choose among what there is, so every list of steps is a program, and a
shorter list is a simpler one: that is how hypothesis finds the smallest program that shows a difference.
"""

from __future__ import annotations

import os
from ctypes import byref, c_char, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING

from emulator.contract.stream_model import RELAXED, Node, Stream, StreamModel
from helpers.abi_graphs import DEVICE_LAUNCH, GraphSteps, HostParams, device_copy, row
from helpers.abi_types import HostFunction, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

Step = tuple[str, int, int, int]

PLAIN_SIZES = (1, 100, 512, 4096, 70000, 1 << 20, 3 << 20, 0, 1 << 40)
POOL_SIZES = (1, 300, 512, 4096, 70000, 0)
NOWHERE = 0x2000_0000_0000 + (20 << 40)
"""An address of the emulator's window that nothing gets: the window is filled from below."""
POOL_RESERVED, POOL_USED = 5, 7

PRELUDE: tuple[Step, ...] = (
    ("create_stream", 0, 0, 0),
    ("create_stream", 1, 0, 0),
    ("create_stream", 1, 0, 0),
    ("create_event", 0, 0, 0),
    ("create_event", 0, 0, 0),
    ("alloc", 3, 0, 0),
    ("alloc", 4, 0, 0),
    ("alloc_async", 3, 1, 0),
    ("alloc_async", 3, 2, 0),
)
"""What nearly every step needs: one blocking and two other streams, events and memory."""


class RandomProgram:
    """One program. `mode` is that of its captures which are not relaxed. `is_alone`: no other program runs meanwhile.
    If one does, freed addresses are not used again: the driver may have given them to the other program."""

    def __init__(self, world: World, expect: Expectations, is_strict: bool, mode: int, *, is_alone: bool) -> None:
        self.world, self.driver, self.expect, self.mode = world, world.driver, expect, mode
        self.model = StreamModel(is_strict, world.free_at_start[world.device])
        self.graph_steps = GraphSteps(world)
        self.streams: list[tuple[int | None, Stream]] = [(None, self.model.legacy)]
        self.ended_streams: list[int] = []
        self.events: list[tuple[int, frozenset[int]]] = []
        self.ended_events: list[int] = []
        self.is_alone = is_alone
        self.ended_addresses: list[int] = [NOWHERE]
        self.graphs: list[tuple[int, list[Node], list[int]]] = []  # handle, nodes, handles of the nodes
        self.execs: list[tuple[int, list[Node]]] = []
        self.calls: list[int] = []
        self.callbacks: list[object] = []

    def run(self, steps: Sequence[Step]) -> None:
        """All steps, the last comparison, and the end of everything that the program made."""
        for kind, *numbers in (*PRELUDE, *steps):
            getattr(self, f"_{kind}")(*numbers)
        self._check()
        self._end()

    def _compare(self, what: str, code: int, want: int) -> bool:
        """Whether the call succeeded, as both say."""
        self.expect(f"{what} in a random program", code, want, "I")
        self.expect.violations = self.model.violations
        return code == 0

    def _stream(self, choice: int, captures: bool = True) -> tuple[int | None, Stream] | None:
        usable = [entry for entry in self.streams if captures or entry[1].capture is None]
        return usable[choice % len(usable)] if usable else None

    def _range(self, choice: int, length: int) -> tuple[int, int]:
        """An address and a size, most times inside of memory."""
        memories = self.model.memories
        if not memories or choice % 13 == 0:
            return self.ended_addresses[choice % len(self.ended_addresses)], length % 100
        memory = memories[choice % len(memories)]
        start = length % memory.size
        beyond = 1 if choice % 11 == 0 else 0
        return memory.address + start, min(memory.size - start, 1 + length % 5000) + beyond

    # -- streams and events -------------------------------------------------------------------------------------------

    def _create_stream(self, flags: int, *_: int) -> None:
        if len(self.streams) >= 5:
            return
        handle = c_void_p()
        if self._compare("cuStreamCreate", self.driver.cuStreamCreate(byref(handle), flags % 2), 0):
            self.streams.append((handle.value, Stream(is_blocking=flags % 2 == 0)))
            self.model.streams.append(self.streams[-1][1])

    def _destroy_stream(self, choice: int, *_: int) -> None:
        entry = self.streams[choice % len(self.streams)]
        if entry[0] is None or entry[1].capture is not None:
            return
        self._compare("cuStreamDestroy", self.driver.cuStreamDestroy(entry[0]), 0)
        entry[1].is_destroyed = True
        self.streams.remove(entry)
        self.ended_streams.append(entry[0])

    def _use_ended_stream(self, choice: int, *_: int) -> None:
        if not self.ended_streams:
            return
        self.model.violations += 1
        handle = self.ended_streams[choice % len(self.ended_streams)]
        self._compare("cuMemsetD8Async", self.driver.cuMemsetD8Async(NOWHERE, 0, 1, handle), Result.INVALID_HANDLE)

    def _create_event(self, *_: int) -> None:
        if len(self.events) < 5:
            self.events.append((self.world.new_event(), frozenset()))

    def _destroy_event(self, choice: int, *_: int) -> None:
        if not self.events:
            return
        handle, _before = self.events.pop(choice % len(self.events))
        self.world.events.remove(handle)
        self._compare("cuEventDestroy", self.driver.cuEventDestroy(handle), 0)
        self.ended_events.append(handle)

    def _use_ended_event(self, choice: int, *_: int) -> None:
        if self.ended_events:
            handle = self.ended_events[choice % len(self.ended_events)]
            self._compare("cuEventRecord", self.driver.cuEventRecord(handle, None), Result.INVALID_HANDLE)

    def _record(self, choice: int, which: int, *_: int) -> None:
        entry = self._stream(choice, captures=False)
        if not self.events or entry is None:
            return
        place = which % len(self.events)
        handle = self.events[place][0]
        self.events[place] = (handle, self.model.record(entry[1]))
        self._compare("cuEventRecord", self.driver.cuEventRecord(handle, entry[0]), 0)

    def _wait(self, choice: int, which: int, *_: int) -> None:
        entry = self._stream(choice, captures=False)
        if self.events and entry is not None:
            handle, before = self.events[which % len(self.events)]
            want = self.model.wait_event(entry[1], before)
            self._compare("cuStreamWaitEvent", self.driver.cuStreamWaitEvent(entry[0], handle, 0), want)

    def _query_event(self, which: int, *_: int) -> None:
        if self.events:
            handle, before = self.events[which % len(self.events)]
            self._compare("cuEventQuery", self.driver.cuEventQuery(handle), self.model.query_event(before))

    def _synchronize_event(self, which: int, *_: int) -> None:
        if self.events:
            handle, before = self.events[which % len(self.events)]
            want = self.model.synchronize_event(before)
            self._compare("cuEventSynchronize", self.driver.cuEventSynchronize(handle), want)

    def _query(self, choice: int, *_: int) -> None:
        handle, stream = self.streams[choice % len(self.streams)]
        self._compare("cuStreamQuery", self.driver.cuStreamQuery(handle), self.model.query(stream))

    def _synchronize(self, choice: int, *_: int) -> None:
        handle, stream = self.streams[choice % len(self.streams)]
        self._compare("cuStreamSynchronize", self.driver.cuStreamSynchronize(handle), self.model.synchronize(stream))

    def _synchronize_all(self, *_: int) -> None:
        if not any(s.capture is not None and s.capture.mode == RELAXED for _, s in self.streams):
            self._compare("cuCtxSynchronize", self.driver.cuCtxSynchronize(), self.model.synchronize_all())

    # -- memory -------------------------------------------------------------------------------------------------------

    def _alloc(self, choice: int, *_: int) -> None:
        size, address = PLAIN_SIZES[choice % len(PLAIN_SIZES)], c_uint64(0)
        if len(self.model.memories) < 8:
            want = self.model.alloc(size)
            if self._compare(f"cuMemAlloc of {size}", self.driver.cuMemAlloc(byref(address), size), want):
                self.model.allocated(address.value, size, bytes(size), None)
                self._clear(None, self.model.legacy, address.value, size)
                self._synchronize(0)

    def _alloc_async(self, choice: int, which: int, *_: int) -> None:
        size, address = POOL_SIZES[choice % len(POOL_SIZES)], c_uint64(0)
        entry = self._stream(which, captures=False)
        if entry is None or len(self.model.memories) >= 8 or (size == 0 and not self.model.is_strict):
            return
        want = self.model.alloc_async(entry[1], size)
        code = self.driver.cuMemAllocAsync(byref(address), size, entry[0])
        if self._compare(f"cuMemAllocAsync of {size}", code, want):
            self.model.allocated(address.value, size, bytes(size), entry[1])
            self._clear(*entry, address.value, size)

    def _clear(self, handle: int | None, stream: Stream, address: int, size: int) -> None:
        """Nobody promises what new memory contains."""
        want = self.model.fill(stream, address, 0, size)
        self._compare("clearing new memory", self.driver.cuMemsetD8Async(address, 0, size, handle), want)

    def _free(self, choice: int, *_: int) -> None:
        address = self._start(choice)
        if self.model.is_strict or not self.model.is_racy_free(None, address):
            want = self.model.free(address)
            if self._compare("cuMemFree", self.driver.cuMemFree(address), want) and address:
                self._note_ended(address)

    def _free_async(self, choice: int, which: int, *_: int) -> None:
        entry, address = self._stream(which, captures=False), self._start(choice)
        if entry is None or (not self.model.is_strict and self.model.is_racy_free(entry[1], address)):
            return
        want = self.model.free_async(entry[1], address)
        if self._compare("cuMemFreeAsync", self.driver.cuMemFreeAsync(address, entry[0]), want):
            self._note_ended(address)

    def _note_ended(self, address: int) -> None:
        if self.is_alone:
            self.ended_addresses.append(address)

    def _start(self, choice: int) -> int:
        memories = self.model.memories
        if not memories or choice % 13 == 0:
            return self.ended_addresses[choice % len(self.ended_addresses)]
        return memories[choice % len(memories)].address + (256 if choice % 11 == 0 else 0)

    # -- work ---------------------------------------------------------------------------------------------------------

    def _may_use(self, stream: Stream, *addresses: int) -> bool:
        """Not if nothing orders it behind other work on the memory: nobody knows the bytes after a race. That the
        stream does not wait for the allocation is noticed by strict devices."""
        return not self.model.is_race(stream, *addresses) and (
            self.model.is_strict or not self.model.is_racy_use(stream, *addresses)
        )

    def _fill(self, which: int, choice: int, length: int) -> None:
        handle, stream = self.streams[which % len(self.streams)]
        address, size = self._range(choice, length)
        if self._may_use(stream, address) and self._is_capturable(stream, address):
            want = self.model.fill(stream, address, length % 256, size)
            self._compare("cuMemsetD8Async", self.driver.cuMemsetD8Async(address, length % 256, size, handle), want)

    def _copy(self, which: int, choice: int, length: int) -> None:
        handle, stream = self.streams[which % len(self.streams)]
        source, size = self._range(choice, length)
        to, room = self._range(length, choice)
        size = min(size, room)
        if self._may_use(stream, to, source) and self._is_capturable(stream, to, source):
            want = self.model.copy(stream, to, source, size)
            self._compare("cuMemcpyDtoDAsync", self.driver.cuMemcpyDtoDAsync(to, source, size, handle), want)

    def _is_capturable(self, stream: Stream, *addresses: int) -> bool:
        """Graphs of the program use plain memory only: that of pools has rules of its own in graphs."""
        found = [self.model.find(address) for address in addresses]
        return stream.capture is None or not any(memory is not None and memory.is_of_pool for memory in found)

    def _write(self, which: int, choice: int, length: int) -> None:
        entry = self._stream(which, captures=False)
        address, size = self._range(choice, length)
        if entry is not None and self._may_use(entry[1], address):
            data = bytes((length + place) % 251 for place in range(size))
            want = self.model.write(entry[1], address, data)
            self._compare("cuMemcpyHtoDAsync", self.driver.cuMemcpyHtoDAsync(address, data, size, entry[0]), want)

    def _read(self, which: int, choice: int, length: int) -> None:
        entry = self._stream(which, captures=False)
        address, size = self._range(choice, length)
        if entry is None or not self._may_use(entry[1], address):
            return
        buffer = (c_char * max(size, 1))()
        want, data = self.model.read(entry[1], address, size)
        code = self.driver.cuMemcpyDtoHAsync(buffer, address, size, entry[0])
        if self._compare("cuMemcpyDtoHAsync", code, want):
            self.expect.equal("the bytes in a random program", buffer.raw[:size], data, "I")

    def _host(self, which: int, number: int, *_: int) -> None:
        handle, stream = self.streams[which % len(self.streams)]
        function = self._function(number)
        want = self.model.call_host(stream, number)
        self._compare("cuLaunchHostFunc", self.driver.cuLaunchHostFunc(handle, function, None), want)

    def _function(self, number: int) -> Callable[..., object]:
        function = HostFunction(lambda _: self.calls.append(number))
        self.callbacks.append(function)  # it must live longer than the queue
        return function

    # -- captures and graphs ------------------------------------------------------------------------------------------

    def _begin_capture(self, which: int, mode: int, *_: int) -> None:
        handle, stream = self.streams[which % len(self.streams)]
        if handle is None or stream.is_blocking or stream.capture is not None:
            return
        mode = RELAXED if mode % 2 else self.mode
        want = self.model.begin_capture(stream, mode)
        self._compare("cuStreamBeginCapture", self.driver.cuStreamBeginCapture(handle, mode), want)

    def _end_capture(self, which: int, *_: int) -> None:
        capturing = [entry for entry in self.streams if entry[1].capture is not None]
        if not capturing:
            return
        handle, stream = capturing[which % len(capturing)]
        want, nodes = self.model.end_capture(stream)
        code, graph = self.graph_steps.end(handle or 0)
        if self._compare("cuStreamEndCapture", code, want):
            self.graphs.append((graph, nodes, []))
        else:
            self.expect.equal("the graph of a spoilt capture", graph, 0, "D")

    def _create_graph(self, *_: int) -> None:
        if len(self.graphs) < 4:
            self.graphs.append((self.graph_steps.graph(), [], []))

    def _add_node(self, which: int, choice: int, length: int) -> None:
        """Behind the last node, so that there is one order only."""
        if not self.graphs:
            return
        graph, nodes, handles = self.graphs[which % len(self.graphs)]
        if nodes and not handles:
            return  # it was captured, and nobody has asked for its nodes
        before = handles[-1:]
        source, size = self._range(choice, length)
        to, room = self._range(length, choice)
        size = min(size, room)
        memories = [self.model.find(address, size) for address in (to, source)]
        if size == 0 or any(memory is None or memory.is_of_pool for memory in memories):
            return
        found = tuple(memory for memory in memories if memory is not None)
        if which % 3 == 0:
            node, params = c_void_p(), HostParams(self._function(length), None)
            code = self.driver.cuGraphAddHostNode(byref(node), graph, *self.graph_steps.nodes(*before), byref(params))
            made = Node(lambda: self.model.host_calls.append(length), tells_host=True)
            handles.append(node.value or 0)
        elif which % 3 == 1:
            code, handle = self.graph_steps.add_fill(graph, row(to, length % 256, size), before)
            made = Node(self.model.filling(to, length % 256, size), found[:1])
            handles.append(handle)
        else:
            code, handle = self.graph_steps.add_copy(graph, device_copy(to, source, size), before)
            made = Node(self.model.copying(to, source, size), found)
            handles.append(handle)
        self._compare("adding a node", code, 0)
        nodes.append(made)

    def _is_live(self, nodes: list[Node]) -> bool:
        return all(memory in self.model.memories for node in nodes for memory in node.memories)

    def _instantiate(self, which: int, flags: int, *_: int) -> None:
        if not self.graphs or len(self.execs) >= 4:
            return
        graph, nodes, _ = self.graphs[which % len(self.graphs)]
        if not self._is_live(nodes):
            return
        flags = DEVICE_LAUNCH if flags % 3 == 0 else 0
        is_refused = flags and (not nodes or any(node.tells_host for node in nodes))
        code, handle = self.graph_steps.instantiate(graph, flags)
        if self._compare("cuGraphInstantiateWithFlags", code, Result.INVALID_VALUE if is_refused else 0):
            self.execs.append((handle, list(nodes)))

    def _checkpoint(self, action: int, *_: int) -> None:
        """A running process cannot be checkpointed, restored or unlocked. A lock would run the work of all programs."""
        name = ("Checkpoint", "Restore", "Unlock")[action % 3]
        code = getattr(self.driver, f"cuCheckpointProcess{name}")(os.getpid(), None)
        self._compare(f"cuCheckpointProcess{name}", code, Result.ILLEGAL_STATE)
        state = c_int(-1)
        self._compare("the state", self.driver.cuCheckpointProcessGetState(os.getpid(), byref(state)), 0)
        self.expect.equal("the process is running", state.value, 0, "D")

    def _launch(self, which: int, choice: int, *_: int) -> None:
        entry = self._stream(choice, captures=False)
        if not self.execs or entry is None:
            return
        handle, nodes = self.execs[which % len(self.execs)]
        addresses = [memory.address for node in nodes for memory in node.memories]
        if self._is_live(nodes) and not self.model.is_race(entry[1], *addresses):
            want = self.model.launch(entry[1], nodes)
            self._compare("cuGraphLaunch", self.driver.cuGraphLaunch(handle, entry[0]), want)

    def _destroy_graph(self, which: int, *_: int) -> None:
        if self.graphs:
            graph, _, _ = self.graphs.pop(which % len(self.graphs))
            self._compare("cuGraphDestroy", self.graph_steps.destroy(graph), 0)

    def _destroy_exec(self, which: int, *_: int) -> None:
        if self.execs:
            handle, _ = self.execs.pop(which % len(self.execs))
            self._compare("cuGraphExecDestroy", self.graph_steps.destroy_exec(handle), 0)

    # -- comparing and ending -----------------------------------------------------------------------------------------

    def _check(self, *_: int) -> None:
        """What the program can see without waiting."""
        # Nothing orders the functions of different streams.
        self.expect.equal("the calls of host functions", sorted(self.calls), sorted(self.model.host_calls), "I")
        pool = c_void_p()
        self.world.must("default pool", self.driver.cuDeviceGetDefaultMemPool(byref(pool), self.world.device))
        used, reserved = c_uint64(0), c_uint64(0)
        for attribute, value in ((POOL_USED, used), (POOL_RESERVED, reserved)):
            self.world.must("attribute", self.driver.cuMemPoolGetAttribute(pool, attribute, byref(value)))
        self.expect.equal("the used bytes of the pool", used.value, self.model.pool_bytes, "I")
        self.expect.that("a pool holds what is used", reserved.value >= used.value, "D")
        taken = self.world.free_at_start[self.world.device] - self.world.free_memory()
        self.expect.equal("the bytes taken", taken, self.model.plain_bytes + reserved.value, "I")

    def _end(self) -> None:
        while any(stream.capture is not None for _, stream in self.streams):
            self._end_capture(0)
        self._synchronize_all()
        self._check()
        for memory in list(self.model.memories):
            self._read(0, self.model.memories.index(memory) or 14 * len(self.model.memories), 0)
            self._compare("the last cuMemFree", self.driver.cuMemFree(memory.address), self.model.free(memory.address))
        for handle, _ in self.streams[1:]:
            self._compare("the last cuStreamDestroy", self.driver.cuStreamDestroy(handle), 0)
        self.graph_steps.close()
        self.world.must("cuCtxSynchronize", self.driver.cuCtxSynchronize())


KINDS = tuple(
    name.removeprefix("_")
    for name in vars(RandomProgram)
    if name.startswith("_")
    and not name.startswith("__")
    and name not in {"_compare", "_stream", "_range", "_clear", "_start", "_may_use", "_function", "_is_capturable"}
    and name not in {"_is_live", "_end", "_note_ended"}
)
"""The names of all steps."""
