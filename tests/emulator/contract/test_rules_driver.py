"""Rules of section C3 of the contract: what the layer relies on beside virtual memory."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_char, c_int, c_uint, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def test_rule_bad_ordinals(world: World, expect: Expectations) -> None:
    """cuDeviceGetName, PrimaryCtxRetain, PrimaryCtxGetState, CanAccessPeer with a bad ordinal -> 101."""
    driver, beyond, number, context = world.driver, world.count, c_int(), c_void_p()
    codes = {
        "cuDeviceGetName": driver.cuDeviceGetName((c_char * 64)(), 64, beyond),
        "cuDevicePrimaryCtxRetain": driver.cuDevicePrimaryCtxRetain(byref(context), beyond),
        "cuDevicePrimaryCtxGetState": driver.cuDevicePrimaryCtxGetState(beyond, byref(c_uint()), byref(number)),
        "cuDeviceCanAccessPeer": driver.cuDeviceCanAccessPeer(byref(number), world.device, beyond),
        "cuDeviceGetP2PAttribute": driver.cuDeviceGetP2PAttribute(byref(number), 2, world.device, beyond),
        "cuDeviceGetP2PAttribute of one device": driver.cuDeviceGetP2PAttribute(
            byref(number), 2, world.device, world.device
        ),
    }
    for call, code in codes.items():
        expect(call, code, Result.INVALID_DEVICE, "O")
    expect.equal("CanAccessPeer of itself", can_access(world, world.device, world.device), (Result.SUCCESS, 0), "D/O")


def can_access(world: World, device: int, peer: int) -> tuple[int, int]:
    """What cuDeviceCanAccessPeer answers."""
    can = c_int(-1)
    return world.driver.cuDeviceCanAccessPeer(byref(can), device, peer), can.value


@pytest.mark.world(devices=2, peers="all")
def test_rule_peer_access(world: World, expect: Expectations) -> None:
    """Enable: already -> 704, itself -> 201, flags -> 1; Disable: not enabled -> 705."""
    driver, (first, second) = world.driver, world.devices
    enable, disable = driver.cuCtxEnablePeerAccess, driver.cuCtxDisablePeerAccess
    peer = world.contexts[second]
    expect.equal("CanAccessPeer", can_access(world, first, second), (Result.SUCCESS, 1), "D")
    expect("disable before enable", disable(peer), Result.PEER_ACCESS_NOT_ENABLED, "D")
    expect("flags 1", enable(peer, 1), Result.INVALID_VALUE, "D")
    expect("the current context itself", enable(world.contexts[first], 0), Result.INVALID_CONTEXT, "D")
    expect("enable", enable(peer, 0), Result.SUCCESS, "D")
    expect("enable again", enable(peer, 0), Result.PEER_ACCESS_ALREADY_ENABLED, "D")
    expect("disable", disable(peer), Result.SUCCESS, "D")


@pytest.mark.world(devices=2, peers="none")
def test_rule_no_peer_access(world: World, expect: Expectations) -> None:
    """Enable without P2P -> 217."""
    first, second = world.devices
    expect.equal("CanAccessPeer", can_access(world, first, second), (Result.SUCCESS, 0), "D")
    code = world.driver.cuCtxEnablePeerAccess(world.contexts[second], 0)
    expect("enable", code, Result.PEER_ACCESS_UNSUPPORTED, "D")


def test_rule_host_memory(world: World, expect: Expectations) -> None:
    """HostAlloc(0) 0; FreeHost(NULL) 0; Unregister(NULL) 1, of a HostAlloc pointer 1; overlapping register 712."""
    driver, pointer = world.driver, c_void_p()
    expect("cuMemHostAlloc(0)", driver.cuMemHostAlloc(byref(pointer), 0, 0), Result.SUCCESS, "O")
    if pointer.value:
        world.must("cuMemFreeHost", driver.cuMemFreeHost(pointer))
    expect("cuMemFreeHost(NULL)", driver.cuMemFreeHost(None), Result.SUCCESS, "O")
    expect("cuMemHostUnregister(NULL)", driver.cuMemHostUnregister(None), Result.INVALID_VALUE, "O")
    world.must("cuMemHostAlloc", driver.cuMemHostAlloc(byref(pointer), 4096, 0))
    code = driver.cuMemHostUnregister(pointer)
    expect("cuMemHostUnregister of a cuMemHostAlloc pointer", code, Result.INVALID_VALUE, "O")
    world.must("cuMemFreeHost", driver.cuMemFreeHost(pointer))

    with mmap.mmap(-1, 4 * mmap.PAGESIZE) as pages:
        view = ctypes.c_char.from_buffer(pages)
        start = ctypes.addressof(view)
        expect("cuMemHostRegister", driver.cuMemHostRegister(start, 2 * mmap.PAGESIZE, 0), Result.SUCCESS, "O")
        code = driver.cuMemHostRegister(start + mmap.PAGESIZE, 2 * mmap.PAGESIZE, 0)
        expect("an overlapping one", code, Result.HOST_MEMORY_ALREADY_REGISTERED, "O")
        expect("cuMemHostUnregister", driver.cuMemHostUnregister(start), Result.SUCCESS, "O")
        del view


def test_rule_copies(world: World, expect: Expectations) -> None:
    """(dst, NULL, 16) -> 1; any with size 0 -> 0 even with NULL."""
    driver, memory = world.driver, world.new_allocation(512)
    expect("HtoD from NULL", driver.cuMemcpyHtoD(memory, None, 16), Result.INVALID_VALUE, "O")
    expect("DtoH to NULL", driver.cuMemcpyDtoH(None, memory, 16), Result.INVALID_VALUE, "O")
    expect("DtoD from 0", driver.cuMemcpyDtoD(memory, 0, 16), Result.INVALID_VALUE, "O")
    expect("HtoD of 0 bytes", driver.cuMemcpyHtoD(0, None, 0), Result.SUCCESS, "O")
    expect("DtoH of 0 bytes", driver.cuMemcpyDtoH(None, 0, 0), Result.SUCCESS, "O")
    expect("DtoD of 0 bytes", driver.cuMemcpyDtoD(0, 0, 0), Result.SUCCESS, "O")
    expect("HtoD beyond the end", driver.cuMemcpyHtoD(memory, bytes(1 << 20), 1 << 20), Result.INVALID_VALUE, "I")


def test_rule_memsets(world: World, expect: Expectations) -> None:
    """D16 and D32 need aligned addresses and count elements, not bytes; N = 0 -> 0."""
    driver, memory = world.driver, world.new_allocation(512)
    world.must("cuMemsetD8", driver.cuMemsetD8(memory, 0, 512))
    expect("D16 at an odd address", driver.cuMemsetD16(memory + 1, 1, 4), Result.INVALID_VALUE, "D")
    expect("D32 at a half word", driver.cuMemsetD32(memory + 2, 1, 4), Result.INVALID_VALUE, "D")
    expect("D32 of 4 elements", driver.cuMemsetD32(memory, 0x01020304, 4), Result.SUCCESS, "D")
    expect("D16 of 4 elements", driver.cuMemsetD16(memory + 16, 0x0506, 4), Result.SUCCESS, "D")
    want = bytes([4, 3, 2, 1] * 4 + [6, 5] * 4 + [0] * 8)
    expect.equal("the bytes", world.read(memory, 32), (Result.SUCCESS, want), "D")
    expect("D8 of 0 elements", driver.cuMemsetD8(memory, 1, 0), Result.SUCCESS, "I")


def test_rule_plain_memory(world: World, expect: Expectations) -> None:
    """An interior or freed pointer -> 1; plain memory is taken from cuMemGetInfo's free memory and comes back."""
    before, memory = world.free_memory(), world.new_allocation(8 << 20)
    expect.that("cuMemAlloc takes memory", before - world.free_memory() >= 8 << 20, "D")
    expect("cuMemFree", world.free_allocation(memory), Result.SUCCESS, "D")
    expect.equal("free memory", world.free_memory(), before, "D")
    if world.driver.is_emulated:
        expect("cuMemFree again", world.driver.cuMemFree(memory), Result.INVALID_VALUE, "D/O")


@pytest.mark.emulator_only("a bogus handle may crash a real driver")
def test_rule_bogus_stream(world: World, expect: Expectations) -> None:
    """A stream handle that never was -> 400."""
    expect("cuStreamQuery", world.driver.cuStreamQuery(0xDEAD0000), Result.INVALID_HANDLE, "O")
    expect("cuStreamSynchronize", world.driver.cuStreamSynchronize(0xDEAD0000), Result.INVALID_HANDLE, "O")
