"""Probes of private pools with events that are late: no memory is used again before its event is complete.

A referee keeps the range of each tensor that was freed while another stream might still use it. It also keeps to which
private pool each range belongs, because no other pool may get it as long as that one lives.
"""

from __future__ import annotations

import random
import threading

import torch
from inside.books import stat
from inside.probe import check, probe
from inside.tensors import MIB, taken
from probes.devices import TWO
from probes.streams import LATE, NEVER, overlap


class Referee:
    """Knows who may use which bytes."""

    def __init__(self) -> None:
        self.live: dict[int, tuple[int, int, object]] = {}
        self.hot: list[tuple[int, int]] = []
        self.owned: list[tuple[int, int, object]] = []
        self.checked = 0
        self.kept: list[
            object
        ] = []  # pools live as long as the referee: a dead one waits for its events, and gives back
        self._lock = threading.Lock()

    def take(self, size: int, owner: object, device: int = 0) -> torch.Tensor:
        """A tensor of this owner; checks every range that is known."""
        with self._lock:
            tensor = taken(size, device)
            mine = (tensor.data_ptr(), size)
            for at, length, _ in self.live.values():
                check(not overlap((at, length), mine), "two live tensors overlap")
            for other in self.hot:
                check(not overlap(other, mine), "memory was used again before its event was complete")
            for at, length, pool in self.owned:
                check(pool == owner or not overlap((at, length), mine), "a pool has got memory of another live pool")
            self.checked += len(self.live) + len(self.hot) + len(self.owned)
            self.live[id(tensor)] = (*mine, owner)
            return tensor

    def free(self, tensors: list[torch.Tensor], index: int, is_shared: bool) -> None:
        """Frees a tensor. `is_shared`: another stream may still use it."""
        with self._lock:
            at, size, owner = self.live.pop(id(tensors[index]))
            if is_shared:
                self.hot.append((at, size))
            if owner is not None:
                self.owned.append((at, size, owner))
            del tensors[index]


def program(referee: Referee, chance: random.Random, turns: int, device: int, captures: bool) -> None:
    """Allocates in two pools, in graphs and outside, on several streams."""
    streams = [torch.cuda.Stream(device) for _ in range(3)]
    pools = [torch.cuda.MemPool() for _ in range(2)]
    graphs: list[torch.cuda.CUDAGraph] = []
    referee.kept.extend((pools, graphs))
    live: list[torch.Tensor] = []
    shared: list[bool] = []
    for turn in range(turns):
        stream = chance.choice(streams)
        size = int(2 ** chance.uniform(9, 24))
        kind = chance.randrange(4)
        with torch.cuda.stream(stream):
            if captures and turn % 40 == 0:
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                inside = [referee.take(size, ("graph", len(graphs), device, id(graphs))) for _ in range(3)]
                graph.capture_end()
                graphs.append(graph)
                referee.free(inside, 1, False)
                live.extend(inside)
                shared.extend([False, False])
                inside.clear()
            if kind < 2:
                with torch.cuda.use_mem_pool(pools[kind]):
                    live.append(referee.take(size, (pools[kind].id, device), device))
            else:
                live.append(referee.take(size, None, device))
        shared.append(chance.random() < 0.3)
        if shared[-1]:
            live[-1].record_stream(chance.choice([other for other in streams if other != stream]))
        while len(live) > 25:
            index = chance.randrange(len(live))
            referee.free(live, index, shared.pop(index))
    for graph in graphs:
        graph.replay()
    while live:
        referee.free(live, 0, shared.pop(0))


@probe(environment=NEVER)
def no_event_is_ever_complete():
    referee = Referee()
    program(referee, random.Random(1), 800, 0, captures=False)
    return len(referee.hot), len(referee.owned), referee.checked


@probe(environment=NEVER)
def no_event_is_ever_complete_beside_graphs():
    referee = Referee()
    program(referee, random.Random(2), 400, 0, captures=True)
    return len(referee.hot), len(referee.owned), referee.checked


@probe(environment=NEVER | TWO)
def no_event_is_ever_complete_on_two_devices():
    """Threads on two devices, each with its pools; one referee."""
    referee = Referee()
    wrong: list[str] = []

    def run(device: int) -> None:
        try:
            with torch.cuda.device(device):
                program(referee, random.Random(10 + device), 300, device, captures=False)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong, len(referee.hot), len(referee.owned)


@probe(environment=LATE)
def late_events_come_at_last():
    """A pool gets its memory back when the events are complete, and not before."""
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(40 * MIB)
        first.record_stream(side)
        at = first.data_ptr()
        del first
        second = taken(40 * MIB)
        check(not overlap((at, 40 * MIB), (second.data_ptr(), 40 * MIB)), "memory was used again before its event")
        for _ in range(200):
            taken(512)
        third = taken(40 * MIB)
    return third.data_ptr() == at, stat("active_bytes.all.current") - torch.cuda.memory_allocated()


@probe(environment=NEVER)
def a_dead_pool_waits_for_its_events():
    """The pool goes while another stream may still use its memory: the host waits, and the memory goes back."""
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(40 * MIB)
    first.record_stream(side)
    at = first.data_ptr()
    del first, pool
    active = stat("active_bytes.all.current") - torch.cuda.memory_allocated()
    return active, torch.cuda.memory_reserved(), at != 0
