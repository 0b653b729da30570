"""Pools of managed memory (CUDA 13.0): section B1 of the contract, and where CUDA's description leaves something open,
the emulator's rule."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint64
from typing import TYPE_CHECKING

import pytest

from helpers.abi_managed import HOST, ManagedDesk, on
from helpers.abi_pools import PoolDesk
from helpers.abi_types import (
    ADVISE_SET_READ_MOSTLY,
    ALLOCATION_MANAGED,
    ALLOCATION_PINNED,
    DEVICE_CPU,
    DEVICE_NONE,
    HANDLE_POSIX_FD,
    LOCATION_HOST,
    LOCATION_HOST_NUMA,
    LOCATION_HOST_NUMA_CURRENT,
    LOCATION_NONE,
    POINTER_DEVICE_ORDINAL,
    POINTER_IS_MANAGED,
    POINTER_MEMPOOL_HANDLE,
    POOL_HELD,
    RANGE_LAST_PREFETCH,
    RANGE_PREFERRED,
    RANGE_READ_MOSTLY,
    MemLocation,
    MemPoolProps,
    MemPoolPtrExportData,
    Result,
    access_descs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

MIB = 1 << 20
NONE = MemLocation(type=LOCATION_NONE, id=-1)
"""As NVIDIA's cuda.core passes it; the id of no location has no meaning."""

pytestmark = pytest.mark.emulator_only("where the pages of managed memory lie is the emulator's own rule")

both_profiles = pytest.mark.parametrize(
    "device_config",
    [{"memory": "256MiB", "profile": "strict"}, {"memory": "256MiB", "profile": "nvidia"}],
    ids=["strict", "nvidia"],
    indirect=True,
)


@pytest.fixture
def pools(world: World) -> Iterator[PoolDesk]:
    desk = PoolDesk(world)
    desk.default()
    yield desk
    desk.close()


@pytest.fixture
def managed(world: World) -> ManagedDesk:
    return ManagedDesk(world)


def props(location: MemLocation, **fields: int) -> MemPoolProps:
    return MemPoolProps(alloc_type=ALLOCATION_MANAGED, location=location, **fields)


@both_profiles
def test_a_managed_pool_can_prefer_any_place(
    world: World, pools: PoolDesk, managed: ManagedDesk, expect: Expectations
) -> None:
    stream = world.new_stream()
    node = MemLocation(type=LOCATION_HOST_NUMA, id=0)
    for location, preferred, ordinal in (
        (NONE, DEVICE_NONE, -1),
        (on(world.device), world.device, world.device),
        (HOST, DEVICE_CPU, -1),
        (node, DEVICE_CPU, -1),
    ):
        code, pool = pools.create(props(location))
        expect(f"a pool at location type {location.type}", code, Result.SUCCESS, "D")
        address = pools.new(MIB, stream, pool)
        expect.equal("PREFERRED", managed.attribute(address, MIB, RANGE_PREFERRED), [preferred], "I")
        expect.equal("DEVICE_ORDINAL", managed.pointer(address, POINTER_DEVICE_ORDINAL), ordinal, "I")
        expect.equal("MEMPOOL_HANDLE", managed.pointer(address, POINTER_MEMPOOL_HANDLE, c_uint64), pool, "D")
        ctypes.memmove(address, b"by the CPU", 10)
        expect.equal("read by a copy", world.read(address, 10), (Result.SUCCESS, b"by the CPU"), "D")
        world.must("cuMemFreeAsync", pools.free(address, stream))
        expect("cuMemPoolDestroy", pools.destroy(pool), Result.SUCCESS, "D")


@both_profiles
def test_wrong_managed_pools_are_refused(world: World, pools: PoolDesk, expect: Expectations) -> None:
    current = MemLocation(type=LOCATION_HOST_NUMA_CURRENT, id=0)
    no_node = MemLocation(type=LOCATION_HOST_NUMA, id=9)
    with expect.no_effect(world, "D"):
        for what, wrong in {
            "for export": props(NONE, handle_types=HANDLE_POSIX_FD),
            "with a maximum": props(NONE, max_size=MIB),
            "with a usage": props(NONE, usage=2),
            "at HOST_NUMA_CURRENT": props(current),
            "at node 9": props(no_node),
            "at no device": props(on(world.count)),
            "at no location, pinned": MemPoolProps(alloc_type=ALLOCATION_PINNED, location=NONE),
        }.items():
            expect(what, pools.create(wrong)[0], Result.INVALID_VALUE, "D")


@both_profiles
def test_the_type_of_a_pool_shows_in_is_managed(
    world: World,
    pools: PoolDesk,
    managed: ManagedDesk,
    device_config: dict[str, object],
    expect: Expectations,
    adds_all_devices: bool,
) -> None:
    """NVIDIA's driver does not set IS_MANAGED for memory of managed pools; its description says otherwise."""
    if world.driver.is_emulated and not adds_all_devices:
        pytest.skip("a pool without a location has the profile of the first device, which the environment describes")
    stream = world.new_stream()
    _, pool = pools.create(props(NONE))
    address = pools.new(MIB, stream, pool)
    is_strict = world.driver.is_emulated and device_config["profile"] == "strict"
    expect.equal("IS_MANAGED", managed.is_managed(address, POINTER_IS_MANAGED), is_strict, "O")
    world.must("cuMemFreeAsync", pools.free(address, stream))


@both_profiles
def test_default_and_current_pools_belong_to_a_place_and_a_type(
    world: World, pools: PoolDesk, managed: ManagedDesk, expect: Expectations
) -> None:
    driver, here = world.driver, on(world.device)
    found = {}
    for name, location in {"none": NONE, "device": here, "host": HOST}.items():
        code, found[name] = managed.pool_at("cuMemGetDefaultMemPool", location, ALLOCATION_MANAGED)
        expect(f"the default pool at {name}", code, Result.SUCCESS, "D")
        expect.equal(
            "again", managed.pool_at("cuMemGetDefaultMemPool", location, ALLOCATION_MANAGED)[1], found[name], "D"
        )
        expect.equal(
            "the current pool", managed.pool_at("cuMemGetMemPool", location, ALLOCATION_MANAGED)[1], found[name], "D"
        )
    found["pinned"] = pools.default()
    expect.equal("the number of different pools", len(set(found.values())), 4, "D")
    other_id = MemLocation(type=LOCATION_NONE, id=3)
    expect.equal("any id", managed.pool_at("cuMemGetMemPool", other_id, ALLOCATION_MANAGED)[1], found["none"], "I")

    _, pool = pools.create(props(here))
    expect("set", driver.cuMemSetMemPool(byref(here), ALLOCATION_MANAGED, pool), Result.SUCCESS, "D")
    expect.equal("the current pool", managed.pool_at("cuMemGetMemPool", here, ALLOCATION_MANAGED)[1], pool, "D")
    expect.equal("of device memory", pools.current(), found["pinned"], "D")
    with expect.no_effect(world, "D"):
        code = driver.cuMemSetMemPool(byref(here), ALLOCATION_PINNED, pool)
        expect("as a pool of device memory", code, Result.INVALID_VALUE, "D")
        expect(
            "at another place", driver.cuMemSetMemPool(byref(NONE), ALLOCATION_MANAGED, pool), Result.INVALID_VALUE, "D"
        )
        expect("cuDeviceSetMemPool", driver.cuDeviceSetMemPool(world.device, pool), Result.INVALID_VALUE, "D")
        code = driver.cuMemPoolDestroy(found["none"])
        expect("destroy of a default pool", code, Result.INVALID_VALUE, "D")
    world.must("cuMemPoolDestroy", pools.destroy(pool))
    expect.equal("after its end", managed.pool_at("cuMemGetMemPool", here, ALLOCATION_MANAGED)[1], found["device"], "D")


@both_profiles
def test_memory_of_a_managed_pool_counts_where_its_pages_lie(
    world: World, pools: PoolDesk, managed: ManagedDesk, expect: Expectations
) -> None:
    stream = world.new_stream()
    _, pool = pools.create(props(NONE))
    big = pools.new(512 * MIB, stream, pool)
    expect.equal("what the device has less", managed.taken(), 0, "I")
    expect.that("RESERVED", pools.get(pool, POOL_HELD) >= 512 * MIB, "D")
    world.must("cuMemsetD8Async", world.driver.cuMemsetD8Async(big, 7, 16 * MIB, stream))
    # In the strict profile the memory begins inside a page.
    expect.that("about 16 MiB less", 16 * MIB <= managed.taken() <= 16 * MIB + world.page, "I")
    world.must("cuMemFreeAsync", pools.free(big, stream))
    expect.equal("after the free", managed.taken(), 0, "I")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect.equal("RESERVED after a synchronisation", pools.get(pool, POOL_HELD), 0, "D")


@both_profiles
def test_allocations_of_a_managed_pool_share_no_page(
    world: World, pools: PoolDesk, managed: ManagedDesk, expect: Expectations
) -> None:
    stream, page, device = world.new_stream(), world.page, world.device
    _, pool = pools.create(props(NONE))
    first, second = pools.new(page, stream, pool), pools.new(64, stream, pool)
    world.must("cuMemPrefetchAsync", managed.prefetch(first, page, HOST, stream))
    world.must("cuMemPrefetchAsync", managed.prefetch(second, 64, on(device), stream))
    last = [managed.attribute(address, 64, RANGE_LAST_PREFETCH)[0] for address in (first, second)]
    expect.equal("the last prefetches", last, [DEVICE_CPU, device], "I")
    world.must("cuMemAdvise", managed.advise(second, 64, ADVISE_SET_READ_MOSTLY))
    world.must("cuMemFreeAsync", pools.free(second, stream))
    again = pools.new(64, stream, pool)
    expect.equal("the same address", again, second, "I")
    expect.equal("without the advice", managed.attribute(again, 64, RANGE_READ_MOSTLY), [0], "D")
    for address in (first, again):
        world.must("cuMemFreeAsync", pools.free(address, stream))


@both_profiles
def test_managed_pools_are_open_to_all_and_cannot_be_shared(
    world: World, pools: PoolDesk, expect: Expectations
) -> None:
    stream, driver = world.new_stream(), world.driver
    _, pool = pools.create(props(NONE))
    address = pools.new(MIB, stream, pool)
    for place in (on(world.device), HOST):
        flags = c_int(-1)
        expect("cuMemPoolGetAccess", driver.cuMemPoolGetAccess(byref(flags), pool, byref(place)), Result.SUCCESS, "D")
        expect.equal("the access", flags.value, 3, "I")
    with expect.no_effect(world, "D"):
        descs = access_descs([world.device], 1)
        expect("cuMemPoolSetAccess", driver.cuMemPoolSetAccess(pool, descs, 1), Result.INVALID_VALUE, "I")
        code = driver.cuMemPoolExportToShareableHandle(byref(c_int()), pool, HANDLE_POSIX_FD, 0)
        expect("export of the pool", code, Result.INVALID_VALUE, "D")
        code = driver.cuMemPoolExportPointer(byref(MemPoolPtrExportData()), address)
        expect("export of a pointer", code, Result.INVALID_VALUE, "D")
        expect("cuMemRetainAllocationHandle", world.retain(address)[0], Result.INVALID_VALUE, "D")
    world.must("cuMemFreeAsync", pools.free(address, stream))


@both_profiles
def test_zero_bytes_from_a_pool_follow_the_profile(
    world: World, pools: PoolDesk, device_config: dict[str, object], expect: Expectations
) -> None:
    """Drivers differ: those of Linux allow 0 bytes, that of Windows in the mode TCC did not."""
    stream, host = world.new_stream(), MemLocation(type=LOCATION_HOST, id=0)
    expected = Result.INVALID_VALUE if device_config["profile"] == "strict" else Result.SUCCESS
    for what, wanted in {
        "managed memory": props(NONE),
        "device memory": MemPoolProps(alloc_type=ALLOCATION_PINNED, location=on(world.device)),
        "host memory": MemPoolProps(alloc_type=ALLOCATION_PINNED, location=host),
    }.items():
        _, pool = pools.create(wanted)
        expect(f"0 bytes of {what}", pools.allocate(0, stream, pool)[0], expected, "O/U")
