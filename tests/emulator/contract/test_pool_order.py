"""Cases 80 and 84 to 87: which stream gets which memory, devices, access and other processes."""

from __future__ import annotations

import os
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from emulator.contract.programs import run_program
from emulator.contract.test_pools import MIB, MOST, pools
from helpers.abi_types import (
    ACCESS_NONE,
    ACCESS_READ,
    ACCESS_READ_WRITE,
    ATTRIBUTE_POOL_HANDLE_TYPES,
    HANDLE_POSIX_FD,
    HANDLE_WIN32,
    LOCATION_DEVICE,
    POOL_FOLLOW_EVENTS,
    POOL_INTERNAL,
    POOL_OPPORTUNISTIC,
    POOL_RELEASE_THRESHOLD,
    MemLocation,
    Result,
    access_descs,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_pools import PoolDesk
    from helpers.abi_world import World

__all__ = ["pools"]  # the fixture


def set_switches(pools: PoolDesk, pool: int, *, events: bool, opportunistic: bool, internal: bool) -> None:
    switches = {POOL_FOLLOW_EVENTS: events, POOL_OPPORTUNISTIC: opportunistic, POOL_INTERNAL: internal}
    for attribute, value in switches.items():
        pools.world.must("cuMemPoolSetAttribute", pools.set(pool, attribute, int(value)))


def test_case_080_reuse(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Reuse: same stream without sync -> same address possible; other stream with all three switches off and free
    pending -> different address; with event dependency + switch 1 -> may reuse; after sync -> may reuse."""
    driver, pool, size = world.driver, pools.new_pool(), 24 * MIB
    stream, other, event = world.new_stream(), world.new_stream(), world.new_event()
    world.must("cuMemPoolSetAttribute", pools.set(pool, POOL_RELEASE_THRESHOLD, MOST))

    def taken_by(taker: int) -> int:
        address = pools.new(size, taker, pool)
        world.must("cuMemFreeAsync", pools.free(address, taker))
        return address

    first = pools.new(size, stream, pool)
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    with world.blocked(stream) as gate:
        world.must("cuMemFreeAsync", pools.free(first, stream))
        expect.equal("the same stream gets it without waiting", pools.new(size, stream, pool), first, "U")
        world.must("cuMemFreeAsync", pools.free(first, stream))
        set_switches(pools, pool, events=False, opportunistic=False, internal=False)
        expect.that("another stream with no switch on does not", taken_by(other) != first, "D")
        set_switches(pools, pool, events=False, opportunistic=True, internal=False)
        expect.that("nor while the free is pending", taken_by(other) != first, "D")
        world.must("cuEventRecord", driver.cuEventRecord(event, stream))
        world.must("cuStreamWaitEvent", driver.cuStreamWaitEvent(other, event, 0))
        set_switches(pools, pool, events=False, opportunistic=False, internal=False)
        unordered = pools.new(size, other, pool)
        expect.that("nor behind an event with the switch off", unordered != first, "D")
        set_switches(pools, pool, events=True, opportunistic=False, internal=False)
        behind = pools.new(size, other, pool)
        expect.equal("behind an event with the switch on it may", behind, first, "U")
        for address in (unordered, behind):
            world.must("cuMemFreeAsync", pools.free(address, other))
        gate.set()
    set_switches(pools, pool, events=False, opportunistic=False, internal=False)
    world.must("cuCtxSynchronize", driver.cuCtxSynchronize())
    third = world.new_stream()
    addresses = {pools.new(size, third, pool) for _ in range(2)}
    expect.equal("after a synchronise any stream may", addresses, {unordered, behind}, "U")


@pytest.mark.world(devices=2)
def test_case_084_another_device(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """SetMemPool with a pool of another device -> 1; alloc-from-pool on another device's stream -> 0."""
    first, second = world.devices
    pool, there = pools.new_pool(first), world.new_stream(device=second)
    pools.default(second)
    with expect.no_effect(world, "D"):
        code = world.driver.cuDeviceSetMemPool(second, pool)
        expect("SetMemPool on the other device", code, Result.INVALID_VALUE, "D")
    code, address = pools.allocate(3 * MIB, there, pool)
    expect("alloc on the other device's stream", code, Result.SUCCESS, "D")
    expect.that("the memory is the pool's", pools.used(pool) >= 3 * MIB, "D")
    code, default_address = pools.allocate(MIB, there)
    expect("alloc without a pool", code, Result.SUCCESS, "D")
    expect.that("is from the stream's device", pools.used(pools.default(second)) >= MIB, "D")
    for memory in (address, default_address):
        expect("free", pools.free(memory, there), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(there))
    expect.equal("RESERVED after synchronising that stream", pools.held(pool), 0, "D")


def test_case_085_access(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Pool access: revoke own device -> 101; bad flags -> 1; bad id -> 101; NULL pool -> 1."""
    driver, pool = world.driver, pools.new_pool()

    def set_access(device: int, flags: int) -> int:
        return driver.cuMemPoolSetAccess(pool, access_descs([device], flags), 1)

    def access(location: MemLocation) -> tuple[int, int]:
        flags = c_int(77)
        return driver.cuMemPoolGetAccess(byref(flags), pool, byref(location)), flags.value

    own = MemLocation(type=LOCATION_DEVICE, id=world.device)
    with expect.no_effect(world, "O"):
        expect("NONE for the own device", set_access(world.device, ACCESS_NONE), Result.INVALID_DEVICE, "O")
        expect("READ for the own device", set_access(world.device, ACCESS_READ), Result.INVALID_DEVICE, "O")
        expect("flags 2", set_access(world.device, 2), Result.INVALID_VALUE, "O")
        expect("device N", set_access(world.count, ACCESS_READ_WRITE), Result.INVALID_DEVICE, "O")
        descs = access_descs([world.device], ACCESS_READ_WRITE)
        expect("pool NULL", driver.cuMemPoolSetAccess(None, descs, 1), Result.INVALID_VALUE, "O")
        expect("map NULL", driver.cuMemPoolSetAccess(pool, None, 1), Result.INVALID_VALUE, "O")
        expect("get: device N", access(MemLocation(type=LOCATION_DEVICE, id=world.count))[0], 1, "O")
        expect("get: location type 0", access(MemLocation(type=0, id=0))[0], Result.INVALID_VALUE, "O")
        code = driver.cuMemPoolGetAccess(byref(c_int()), None, byref(own))
        expect("get: pool NULL", code, Result.INVALID_VALUE, "O")
    expect.equal("access of the own device", access(own), (Result.SUCCESS, ACCESS_READ_WRITE), "D")
    expect("READWRITE for the own device", set_access(world.device, ACCESS_READ_WRITE), Result.SUCCESS, "D")


def test_case_086_export(world: World, pools: PoolDesk, driver: Driver, expect: Expectations) -> None:
    """Pool export: pool without handle type -> 1; import pool: AllocFromPool -> 1, SetMemPool -> 1, TrimTo -> 0
    no-op."""
    types = c_int(0)
    code = driver.cuDeviceGetAttribute(byref(types), ATTRIBUTE_POOL_HANDLE_TYPES, world.device)
    world.must("cuDeviceGetAttribute(119)", code)
    if not types.value & HANDLE_POSIX_FD:
        pytest.skip("the device's pools export no file descriptors (attribute 119)")
    stream, private = world.new_stream(), pools.new_pool()
    shared, address = pools.new_pool(handle_types=HANDLE_POSIX_FD), pools.new(4096, stream, private)
    with expect.no_effect(world, "O"):
        expect("a pool without handle type", pools.export(private)[0], Result.INVALID_VALUE, "O")
        expect("the default pool", pools.export(pools.default())[0], Result.INVALID_VALUE, "D")
        expect("type WIN32", pools.export(shared, HANDLE_WIN32)[0], Result.INVALID_VALUE, "I")
        expect("flags 1", pools.export(shared, flags=1)[0], Result.INVALID_VALUE, "O")
        code = driver.cuMemPoolExportToShareableHandle(None, shared, HANDLE_POSIX_FD, 0)
        expect("out NULL", code, Result.INVALID_VALUE, "O")
        expect("a pointer of a private pool", pools.export_pointer(address)[0], Result.INVALID_VALUE, "I")
        code = driver.cuMemPoolImportFromShareableHandle(byref(c_void_p()), -1, HANDLE_POSIX_FD, 0)
        expect("import of -1", code, Result.INVALID_VALUE, "O/I")
    code, fd = pools.export(shared)
    expect("export", code, Result.SUCCESS, "D")
    os.close(fd)

    answers = run_program("pool_parent", driver.library)
    expect("import of the pool in a child", answers["import"], Result.SUCCESS, "D")
    expect("import of the pointer", answers["import_pointer"], Result.SUCCESS, "D")
    expect.equal("what the child reads", answers["read"], "written by the parent", "D")
    expect("AllocFromPool of an import", answers["allocate"], Result.INVALID_VALUE, "D")
    expect("SetMemPool with an import", answers["set_current"], Result.INVALID_VALUE, "D")
    expect("TrimTo of an import", answers["trim"], Result.SUCCESS, "D")
    expect.equal("RESERVED of it, unchanged", answers["held_after_trim"], answers["held_before_trim"], "D")
    expect("a write by the child", answers["write"], Result.SUCCESS, "D")
    expect("free by the child", answers["free"], Result.SUCCESS, "D")
    expect("destroy of the import", answers["destroy"], Result.SUCCESS, "D")
    expect.equal("what the parent reads then", answers["read_by_parent"], "written by the child ", "D")
    expect("free by the parent", answers["free_by_parent"], Result.SUCCESS, "D")


def test_case_087_the_other_free(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """cuMemFree of async memory -> 0 without waiting; cuMemFreeAsync of cuMemAlloc memory -> 0."""
    driver, pool = world.driver, pools.new_pool()
    busy, stream = world.new_stream(), world.new_stream()
    address = pools.new(3 * MIB, stream, pool)
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    with world.blocked(busy):
        expect("cuMemFree of async memory while a stream is blocked", pools.free_now(address), Result.SUCCESS, "D")
        expect.equal("USED", pools.used(pool), 0, "D")
        expect("the blocked stream", driver.cuStreamQuery(busy), Result.NOT_READY, "D")
    world.must("cuCtxSynchronize", driver.cuCtxSynchronize())  # the pool gives back what it holds
    before = world.free_memory()
    plain = world.new_allocation(4 * MIB)
    code = driver.cuMemFreeAsync(plain, stream)
    expect("cuMemFreeAsync of cuMemAlloc memory", code, Result.SUCCESS, "D")
    if code == Result.SUCCESS:
        world.allocations.remove(plain)
        expect("cuMemFree of it again", driver.cuMemFree(plain), Result.INVALID_VALUE, "I")
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    expect.equal("bytes taken from the device at the end", before - world.free_memory(), 0, "D")
    expect("the address of nothing", driver.cuMemFreeAsync(c_uint64(plain), stream), Result.INVALID_VALUE, "I")
