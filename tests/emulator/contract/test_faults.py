"""Case 96: a driver call fails in the middle of a composite operation of memlake's own core, at every place it can."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.abi_types import Result
from memlake import _native
from memlake.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

CHUNKS = 4


class Scene:
    """The core on the world's devices, and the question what exists."""

    def __init__(self, world: World) -> None:
        self.driver = _native.Driver.load(world.driver.library)
        self.driver.initialize()
        self.devices = [self.driver.device(ordinal) for ordinal in world.devices]
        self.device = self.devices[0]
        self.granule = self.device.granularity(False)
        self.device.synchronize()  # its context is retained from here on: that is not part of any operation

    def held(self) -> dict[str, Any]:
        """What a failed operation must leave as it was."""
        held: dict[str, Any] = {"free": [device.free_memory() for device in self.devices]}
        if self.driver.is_emulated:
            ledger = json.loads(self.driver.ledger())
            held |= {kind: ledger[kind] for kind in ("reservations", "chunks", "mappings", "allocations")}
        return held


def stitching(scene: Scene) -> Callable[[], None]:
    """One range over several chunks, of all devices in turn."""
    turns = [scene.devices[i % len(scene.devices)] for i in range(CHUNKS)]
    chunks = [_native.PhysicalChunk(device, scene.granule, False) for device in turns]

    def operation() -> None:
        reservation, mappings = _native.stitch(scene.device, chunks, scene.devices)
        for mapping in mappings:
            mapping.close()
        reservation.close()

    return operation


def creating(scene: Scene) -> Callable[[], None]:
    """Chunk, reservation and mapping, one by one, as a person would do it by hand."""

    def operation() -> None:
        chunk = _native.PhysicalChunk(scene.device, scene.granule, False)
        reservation = _native.Reservation(scene.device, scene.granule, 0, 0)
        mapping = _native.Mapping(reservation, 0, chunk, scene.granule)
        scene.device.set_access(mapping.address, scene.granule, scene.devices, 3)
        mapping.close()
        reservation.close()
        chunk.close()

    return operation


def importing(scene: Scene) -> Callable[[], None]:
    """Export a chunk and import it again."""
    chunk = _native.PhysicalChunk(scene.device, scene.granule, True)

    def operation() -> None:
        fd = chunk.export_fd()
        try:
            again = _native.PhysicalChunk.import_fd(scene.device, fd, scene.granule)
        finally:
            os.close(fd)
        again.close()

    return operation


@pytest.mark.one_device_will_do
@pytest.mark.world(devices=2, peers="all")
@pytest.mark.parametrize("code", [Result.INVALID_VALUE, Result.OUT_OF_MEMORY])
@pytest.mark.parametrize("scenario", [stitching, creating, importing])
def test_case_096_fault_at_every_call(
    scenario: Callable[[Scene], Callable[[], None]], code: Result, world: World, expect: Expectations
) -> None:
    """After any failing driver call inside a composite operation (fault injection at the k-th call for every k): no
    leaked mapping, handle, reservation; free memory as before."""
    scene = Scene(world)
    operation = scenario(scene)
    operation()
    before = scene.held()
    failures = 0
    while True:
        scene.driver.fail("", failures + 1, code)
        try:
            operation()
        except DriverError as error:
            failures += 1
            expect.equal(f"the code of fault {failures}", error.code, int(code), "I")
        else:
            break
        finally:
            scene.driver.clear_faults()
        expect.equal(f"what is held after fault {failures}", scene.held(), before, "I")
    expect.that("there were calls to fail", failures >= 2, "I")
