"""Cases 72 to 79 and 81 to 83: pools, their attributes, and when their memory goes back."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_pools import PoolDesk
from helpers.abi_types import (
    ATTRIBUTE_POOLS_SUPPORTED,
    LOCATION_DEVICE,
    POINTER_MEMPOOL_HANDLE,
    POOL_FOLLOW_EVENTS,
    POOL_HELD,
    POOL_HELD_HIGH,
    POOL_INTERNAL,
    POOL_OPPORTUNISTIC,
    POOL_RELEASE_THRESHOLD,
    POOL_USED,
    POOL_USED_HIGH,
    MemLocation,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

MIB = 1 << 20
MOST = (1 << 64) - 1
SEGMENT = 32 * MIB
"""What a real pool was seen to take at least; the emulator's default."""


@pytest.fixture
def pools(world: World) -> Iterator[PoolDesk]:
    supported = c_int(0)
    world.must(
        "cuDeviceGetAttribute(115)",
        world.driver.cuDeviceGetAttribute(byref(supported), ATTRIBUTE_POOLS_SUPPORTED, world.device),
    )
    if not supported.value:
        pytest.skip("the device has no memory pools (attribute 115)")
    desk = PoolDesk(world)
    desk.default()  # made by the driver when somebody asks first
    yield desk
    desk.close()


def test_case_072_create_and_destroy(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Create: NULLs, type 0, location 0, id N -> 1; destroy NULL, twice, default -> 1."""
    create, out = world.driver.cuMemPoolCreate, c_void_p(77)
    good = pools.props()
    with expect.no_effect(world, "O"):
        expect("pool NULL", create(None, byref(good)), Result.INVALID_VALUE, "O")
        expect("props NULL", create(byref(out), None), Result.INVALID_VALUE, "O")
        for what, change in {
            "type 0": ("alloc_type", 0),
            "location type 0": ("location", MemLocation(type=0, id=world.device)),
            "id N": ("location", MemLocation(type=LOCATION_DEVICE, id=world.count)),
            "id -1": ("location", MemLocation(type=LOCATION_DEVICE, id=-1)),
        }.items():
            props = pools.props()
            setattr(props, *change)
            expect(what, create(byref(out), byref(props)), Result.INVALID_VALUE, "O")
    expect.equal("the out-parameter", out.value, 77, "I")

    code, pool = pools.create(good)
    expect("a good pool", code, Result.SUCCESS, "D")
    with expect.no_effect(world, "O"):
        expect("destroy NULL", world.driver.cuMemPoolDestroy(None), Result.INVALID_VALUE, "O")
        code = world.driver.cuMemPoolDestroy(pools.default())
        expect("destroy the default pool", code, Result.INVALID_VALUE, "O")
    expect("destroy", pools.destroy(pool), Result.SUCCESS, "D")
    expect("destroy twice", world.driver.cuMemPoolDestroy(pool), Result.INVALID_VALUE, "O")


def test_case_073_default_attributes(pools: PoolDesk, expect: Expectations) -> None:
    """Default attributes: 1,1,1,0; RESERVED = USED = 0 on a new pool."""
    pool = pools.new_pool()
    values = [pools.get(pool, attribute) for attribute in range(POOL_FOLLOW_EVENTS, POOL_USED_HIGH + 1)]
    expect.equal("attributes 1 to 8", values, [1, 1, 1, 0, 0, 0, 0, 0], "D")


def test_case_074_what_can_be_set(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Set RESERVED_MEM_CURRENT or USED_MEM_CURRENT (any value, also 0) -> 1; set *_HIGH to 5 -> 1, to 0 -> 0 and
    HIGH == CURRENT; attr 9999 -> 1."""
    stream, pool = world.new_stream(), pools.new_pool()
    for attribute in (POOL_FOLLOW_EVENTS, POOL_OPPORTUNISTIC, POOL_INTERNAL):
        expect(f"set attribute {attribute} to 0", pools.set(pool, attribute, 0), Result.SUCCESS, "D")
        expect.equal(f"attribute {attribute}", pools.get(pool, attribute), 0, "D")
    expect("set the threshold", pools.set(pool, POOL_RELEASE_THRESHOLD, MOST), Result.SUCCESS, "D")
    expect.equal("the threshold", pools.get(pool, POOL_RELEASE_THRESHOLD), MOST, "D")

    world.must("cuMemFreeAsync", pools.free(pools.new(8 * MIB, stream, pool), stream))
    small = pools.new(4096, stream, pool)
    high = pools.get(pool, POOL_USED_HIGH)
    expect.that("the high mark is above what is used now", high > pools.used(pool), "D")
    with expect.no_effect(world, "D/O"):
        for attribute in (POOL_HELD, POOL_USED):
            for value in (0, 5, 512 * MIB):
                code = pools.set(pool, attribute, value)
                expect(f"set attribute {attribute} to {value}", code, Result.INVALID_VALUE, "D/O")
        for attribute in (POOL_HELD_HIGH, POOL_USED_HIGH):
            expect(f"set attribute {attribute} to 5", pools.set(pool, attribute, 5), Result.INVALID_VALUE, "D/O")
        expect("set attribute 9999", pools.set(pool, 9999, 0), Result.INVALID_VALUE, "D/O")
        number = c_uint64(77)
        code = world.driver.cuMemPoolGetAttribute(pool, 9999, byref(number))
        expect("get attribute 9999", code, Result.INVALID_VALUE, "D/O")
        expect.equal("the out-parameter", number.value, 77, "I")
        code = world.driver.cuMemPoolGetAttribute(pool, POOL_HELD, None)
        expect("get into NULL", code, Result.INVALID_VALUE, "O")
    expect.equal("the high mark after that", pools.get(pool, POOL_USED_HIGH), high, "D")
    for attribute, current in ((POOL_HELD_HIGH, POOL_HELD), (POOL_USED_HIGH, POOL_USED)):
        expect(f"set attribute {attribute} to 0", pools.set(pool, attribute, 0), Result.SUCCESS, "D/O")
        expect.equal(f"attribute {attribute} then", pools.get(pool, attribute), pools.get(pool, current), "D/O")
    world.must("cuMemFreeAsync", pools.free(small, stream))


def test_case_075_small_allocation(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Alloc 12 B -> USED small, RESERVED >= USED and segment-sized; ptr % 256 == 0."""
    stream, pool = world.new_stream(), pools.new_pool()
    code, address = pools.allocate(12, stream, pool)
    expect("alloc of 12 bytes", code, Result.SUCCESS, "O")
    expect.equal("address modulo 256", address % 256, 0, "O")
    used, held = pools.used(pool), pools.held(pool)
    expect.that("USED is at least 12 and at most a segment's smallest part", 12 <= used <= 2 * MIB, "O")
    expect.that("RESERVED is at least USED", held >= used, "D")
    expect.equal("RESERVED modulo 2 MiB", held % (2 * MIB), 0, "O")
    expect.equal("RESERVED", held, SEGMENT, "U")


def test_case_076_threshold_zero(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Threshold 0: alloc, freeAsync, query until done: RESERVED unchanged; cuStreamSynchronize: RESERVED 0."""
    stream, pool = world.new_stream(), pools.new_pool()
    before = world.free_memory()
    pools.new_free(3 * MIB, stream, pool)
    held = pools.held(pool)
    expect.that("RESERVED after the free", held >= 3 * MIB, "D")
    expect("query until done", world.outcome(world.driver.cuStreamQuery, stream), Result.SUCCESS, "D")
    expect.equal("RESERVED after the query", pools.held(pool), held, "D/O")
    expect.equal("USED", pools.used(pool), 0, "D")
    expect("synchronise", world.driver.cuStreamSynchronize(stream), Result.SUCCESS, "D")
    expect.equal("RESERVED after it", pools.held(pool), 0, "D/O")
    expect.equal("bytes taken from the device", before - world.free_memory(), 0, "I")


def test_case_077_threshold_most(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Threshold MAX: after sync RESERVED kept; TrimTo(0) -> 0."""
    stream, pool = world.new_stream(), pools.new_pool()
    world.must("cuMemPoolSetAttribute", pools.set(pool, POOL_RELEASE_THRESHOLD, MOST))
    pools.new_free(3 * MIB, stream, pool)
    held = pools.held(pool)
    for what, synchronize in (
        ("stream", lambda: world.driver.cuStreamSynchronize(stream)),
        ("context", world.driver.cuCtxSynchronize),
    ):
        expect(f"{what} synchronise", synchronize(), Result.SUCCESS, "D")
        expect.equal(f"RESERVED after {what} synchronise", pools.held(pool), held, "D")
    expect("TrimTo(0)", world.driver.cuMemPoolTrimTo(pool, 0), Result.SUCCESS, "D")
    expect.equal("RESERVED after TrimTo(0)", pools.held(pool), 0, "D")


def test_case_078_trim(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """TrimTo(n) with reserved r > n, all free: n <= reserved_after <= r, and < n + one segment; with r < n: no-op."""
    stream, pool = world.new_stream(), pools.new_pool()
    world.must("cuMemPoolSetAttribute", pools.set(pool, POOL_RELEASE_THRESHOLD, MOST))
    parts = [pools.new(SEGMENT, stream, pool) for _ in range(4)]
    for part in parts:
        world.must("cuMemFreeAsync", pools.free(part, stream))
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    held = pools.held(pool)
    expect("TrimTo more than there is", world.driver.cuMemPoolTrimTo(pool, held + 1), Result.SUCCESS, "D")
    expect.equal("RESERVED after it", pools.held(pool), held, "D")
    for keep in (3 * SEGMENT - MIB, 40 * MIB, 1):
        before = pools.held(pool)
        expect(f"TrimTo({keep})", world.driver.cuMemPoolTrimTo(pool, keep), Result.SUCCESS, "D")
        after = pools.held(pool)
        expect.that(f"TrimTo({keep}) keeps enough", keep <= after <= before, "D")
        expect.that(f"TrimTo({keep}) keeps less than a segment too much", after < keep + SEGMENT + 2 * MIB, "D")
    expect("TrimTo of NULL", world.driver.cuMemPoolTrimTo(None, 0), Result.INVALID_VALUE, "O")


def test_case_079_pending_frees_stay(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """freeAsync behind a blocked stream, TrimTo(0): nothing released; unblock + sync + TrimTo(0): released."""
    stream, pool = world.new_stream(), pools.new_pool()
    world.must("cuMemPoolSetAttribute", pools.set(pool, POOL_RELEASE_THRESHOLD, MOST))
    address = pools.new(3 * MIB, stream, pool)
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    held = pools.held(pool)
    with world.blocked(stream) as gate:
        world.must("cuMemFreeAsync", pools.free(address, stream))
        expect("TrimTo(0) while the free is pending", world.driver.cuMemPoolTrimTo(pool, 0), Result.SUCCESS, "D/O")
        expect.equal("RESERVED after it", pools.held(pool), held, "D/O")
        gate.set()
        world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect("TrimTo(0)", world.driver.cuMemPoolTrimTo(pool, 0), Result.SUCCESS, "D/O")
    expect.equal("RESERVED at the end", pools.held(pool), 0, "D/O")


def test_case_081_bad_allocations_and_frees(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """freeAsync NULL -> 1; double -> 1; interior -> 1; bogus stream -> 400; alloc with NULL out -> 1; SIZE_MAX -> 2."""
    driver, stream, out = world.driver, world.new_stream(), c_uint64(77)
    bogus = MOST
    address = pools.new(4096, stream)
    with expect.no_effect(world, "O"):
        expect("freeAsync NULL", driver.cuMemFreeAsync(0, stream), Result.INVALID_VALUE, "O")
        expect("freeAsync inside", driver.cuMemFreeAsync(address + 256, stream), Result.INVALID_VALUE, "I")
        expect("freeAsync on a bogus stream", driver.cuMemFreeAsync(address, bogus), Result.INVALID_HANDLE, "O")
        expect("alloc on a bogus stream", driver.cuMemAllocAsync(byref(out), 64, bogus), Result.INVALID_HANDLE, "O")
        expect("alloc with NULL out", driver.cuMemAllocAsync(None, 64, stream), Result.INVALID_VALUE, "O")
        expect("alloc of SIZE_MAX", driver.cuMemAllocAsync(byref(out), MOST, stream), Result.OUT_OF_MEMORY, "O")
        code = driver.cuMemAllocFromPoolAsync(byref(out), 64, None, stream)
        expect("alloc from the pool NULL", code, Result.INVALID_VALUE, "I")
        expect("alloc of 0 bytes", driver.cuMemAllocAsync(byref(out), 0, stream), Result.INVALID_VALUE, "U")
    expect.that("the out-parameter", out.value in {0, 77}, "I")
    expect("freeAsync", pools.free(address, stream), Result.SUCCESS, "D")
    expect("freeAsync twice", driver.cuMemFreeAsync(address, stream), Result.INVALID_VALUE, "O")


def test_case_082_max_size(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """maxSize 64 MiB: allocations beyond -> 2 (12.2+)."""
    if world.driver.version() < 12020:
        pytest.skip("maxSize exists since CUDA 12.2")
    stream, pool = world.new_stream(), pools.new_pool(max_size=64 * MIB)
    code, _ = pools.allocate(65 * MIB, stream, pool)
    expect("65 MiB at once", code, Result.OUT_OF_MEMORY, "D")
    addresses = []
    for _ in range(2):
        code, address = pools.allocate(32 * MIB, stream, pool)
        expect("32 MiB", code, Result.SUCCESS, "D")
        addresses.append(address)
    code, _ = pools.allocate(4096, stream, pool)
    expect("4096 bytes beyond", code, Result.OUT_OF_MEMORY, "D")
    world.must("cuMemFreeAsync", pools.free(addresses[0], stream))
    code, _ = pools.allocate(16 * MIB, stream, pool)
    expect("16 MiB after a free in the same stream", code, Result.SUCCESS, "D")


def test_case_083_current_pool(world: World, pools: PoolDesk, expect: Expectations) -> None:
    """Set current pool; alloc; pointer attribute 17 == pool; destroy pool: current reverts to default; later free
    works and releases."""
    driver, stream, pool = world.driver, world.new_stream(), pools.new_pool()
    before = world.free_memory()
    expect.equal("the current pool at first", pools.current(), pools.default(), "D")
    expect("SetMemPool", driver.cuDeviceSetMemPool(world.device, pool), Result.SUCCESS, "D")
    expect.equal("the current pool", pools.current(), pool, "D")
    address = pools.new(3 * MIB, stream)
    expect.that("the memory is from it", pools.used(pool) >= 3 * MIB, "D")
    handle = c_void_p(77)
    code = driver.cuPointerGetAttribute(byref(handle), POINTER_MEMPOOL_HANDLE, address + 100)
    expect("pointer attribute 17", code, Result.SUCCESS, "D")
    expect.equal("its value", handle.value, pool, "D")
    expect("destroy", pools.destroy(pool), Result.SUCCESS, "D/O")
    expect.equal("the current pool then", pools.current(), pools.default(), "D/O")
    expect("alloc from a destroyed pool", pools.allocate(64, stream, pool)[0], Result.INVALID_VALUE, "I")
    expect("write to the memory", driver.cuMemsetD8Async(address, 1, 3 * MIB, stream), Result.SUCCESS, "D")
    expect("free", pools.free(address, stream), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    expect.equal("bytes taken from the device at the end", before - world.free_memory(), 0, "D")
