"""Launches of kernels: the checks, and the two settings (kernels=skip, kernels=refuse)."""

from __future__ import annotations

from ctypes import addressof, byref, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
from typing import TYPE_CHECKING

import pytest

from helpers import abi_code as code
from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

skips = pytest.mark.world(kernels="skip")
needs_setting = pytest.mark.emulator_only("the setting is the emulator's")


def fill_parameters(world: World) -> code.Parameters:
    """Parameters for the kernel fill, with memory that exists."""
    return code.Parameters(c_uint64(world.new_allocation(4096)), c_int(1), c_uint64(0))


@needs_setting
def test_by_default_a_launch_is_refused_and_the_setting_is_named(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
        with expect.no_effect(world, "I"):
            expect("launch", code.launch(world, kernel), Result.NOT_SUPPORTED, "I")
            expect.that("the setting is named", "kernels=skip" in world.driver.last_error(), "I")


@needs_setting
def test_kernels_is_a_choice(world: World, expect: Expectations) -> None:
    first, count = c_int(), c_int()
    answer = world.driver.memlakeEmulatorAddDevices(b"kernels=run", byref(first), byref(count))
    expect("kernels=run", answer, Result.INVALID_VALUE, "I")
    expect.that("both words are named", "refuse or skip" in world.driver.last_error(), "I")


@skips
@needs_setting
def test_a_skipped_launch_is_counted_by_kernel(world: World, expect: Expectations) -> None:
    before = world.driver.ledger()["skipped_kernels"]
    with code.loaded(world) as module:
        for name in ("nothing", "nothing", "fill"):
            kernel = code.function(world, module, name)
            parameters = fill_parameters(world) if name == "fill" else None
            expect(name, code.launch(world, kernel, parameters), Result.SUCCESS, "D")
    after = world.driver.ledger()["skipped_kernels"]
    counted = {name: after[name] - before.get(name, 0) for name in ("nothing", "fill")}
    expect.equal("launches", counted, {"nothing": 2, "fill": 1}, "I")
    warnings = [entry["text"] for entry in world.driver.ledger()["warnings"] if "is skipped" in entry["text"]]
    expect.equal("warnings in this process", len(warnings), 1, "I")


@skips
def test_a_launch_is_work_of_its_stream(world: World, expect: Expectations) -> None:
    stream = world.new_stream()
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
        with world.blocked(stream) as gate:
            expect("launch", code.launch(world, kernel, stream=stream), Result.SUCCESS, "D")
            expect("query", world.driver.cuStreamQuery(stream), Result.NOT_READY, "D")
            gate.set()
            expect("synchronize", world.driver.cuStreamSynchronize(stream), Result.SUCCESS, "D")


@skips
@needs_setting
def test_a_skipped_kernel_changes_no_memory(world: World, expect: Expectations) -> None:
    memory = world.new_allocation(64)
    world.must("write", world.write(memory, b"before"))
    with code.loaded(world) as module:
        kernel = code.function(world, module, "fill")
        parameters = code.Parameters(c_uint64(memory), c_int(1), c_uint64(16))
        expect("launch", code.launch(world, kernel, parameters), Result.SUCCESS, "I")
        expect("synchronize", world.driver.cuCtxSynchronize(), Result.SUCCESS, "D")
    expect.equal("memory", world.read(memory, 6), (0, b"before"), "I")


@skips
@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((0, 1, 1), (1, 1, 1)),
        ((1, 65536, 1), (1, 1, 1)),
        ((1, 1, 65536), (1, 1, 1)),
        ((1, 1, 1), (0, 1, 1)),
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (1, 1, 65)),
        ((1, 1, 1), (64, 32, 1)),
    ],
)
def test_a_shape_that_no_device_runs_is_refused(
    world: World, expect: Expectations, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
        with expect.no_effect(world, "I"):
            expect("launch", code.launch(world, kernel, grid=grid, block=block), Result.INVALID_VALUE, "D")


@skips
def test_launch_bounds_hold(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "limited")
        parameters = code.Parameters(*[c_uint64(0)] * 3)
        answer = code.launch(world, kernel, parameters, block=(256, 1, 1))
        expect("launch", answer, Result.LAUNCH_OUT_OF_RESOURCES, "I")


@skips
def test_dynamic_shared_memory_must_be_allowed(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
        expect("48 KiB", code.launch(world, kernel, shared=48 << 10), Result.SUCCESS, "D")
        expect("64 KiB", code.launch(world, kernel, shared=64 << 10), Result.INVALID_VALUE, "D")
        world.must("raise", world.driver.cuFuncSetAttribute(kernel, code.MAX_DYNAMIC_SHARED, 64 << 10))
        expect("64 KiB, allowed", code.launch(world, kernel, shared=64 << 10), Result.SUCCESS, "D")


@skips
def test_parameters_are_passed_in_one_of_two_ways(world: World, expect: Expectations) -> None:
    driver = world.driver
    with code.loaded(world) as module:
        kernel = code.function(world, module, "fill")
        buffer = create_string_buffer(world.new_allocation(64).to_bytes(8, "little"), 24)

        def answer(size: int, parameters: code.Parameters | None = None) -> int:
            number = c_size_t(size)
            extra = (c_void_p * 5)(1, addressof(buffer), 2, addressof(number), 0)
            pointers = parameters.pointers if parameters else None
            return driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, pointers, extra)

        expect("a buffer", answer(24), Result.SUCCESS, "D")
        expect("a short buffer", answer(16), Result.INVALID_VALUE, "I")
        expect("both", answer(24, fill_parameters(world)), Result.INVALID_VALUE, "D")
        if driver.is_emulated:  # a real driver may crash
            expect("none", code.launch(world, kernel), Result.INVALID_VALUE, "I")


@skips
def test_a_kernel_of_a_library_runs_in_the_context_of_the_stream(world: World, expect: Expectations) -> None:
    stream, kernel = world.new_stream(), c_void_p()
    with code.library(world) as made:
        world.must("kernel", world.driver.cuLibraryGetKernel(byref(kernel), made, b"nothing"))
        expect("a kernel for a function", code.launch(world, kernel, stream=stream), Result.SUCCESS, "D")
        expect("synchronize", world.driver.cuStreamSynchronize(stream), Result.SUCCESS, "D")


@pytest.mark.world(devices=2, kernels="skip")
def test_a_function_of_another_context_is_refused(world: World, expect: Expectations) -> None:
    stream = world.new_stream(device=world.devices[1])
    world.use(world.device)
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
        expect("launch", code.launch(world, kernel, stream=stream), Result.INVALID_HANDLE, "I")


@skips
def test_attributes_of_a_launch_are_read(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")

        def answer(which: int, value: int, blocks: int = 1) -> int:
            attribute = code.LaunchAttribute(which, 0, (value,))
            config = code.LaunchConfig((blocks, 1, 1), (1024, 1, 1), 0, None, addressof(attribute), 1)
            return world.driver.cuLaunchKernelEx(byref(config), kernel, None, None)

        ignore, cooperative, unknown = 0, 2, 1000
        expect("ignored", answer(ignore, 1), Result.SUCCESS, "D")
        expect("cooperative", answer(cooperative, 1), Result.SUCCESS, "D")
        too_large = answer(cooperative, 1, blocks=1 << 20)
        expect("too many blocks to run together", too_large, Result.COOPERATIVE_LAUNCH_TOO_LARGE, "D")
        expect("not cooperative", answer(cooperative, 0, blocks=1 << 20), Result.SUCCESS, "D")
        expect("unknown", answer(unknown, 1), Result.INVALID_VALUE, "D")


def test_occupancy_is_what_fits_into_a_multiprocessor(world: World, expect: Expectations) -> None:
    driver = world.driver
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")

        def blocks(threads: int, shared: int = 0) -> int:
            count = c_int(-1)
            asked = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(count), kernel, threads, shared)
            world.must("occupancy", asked)
            return count.value

        expect.that("two blocks of the largest size", 1 <= blocks(1024) <= 2, "D")
        expect.that("more small blocks", blocks(64) > blocks(1024), "D")
        expect.that("shared memory limits them", blocks(64, 40 << 10) < blocks(64), "D")
        expect.equal("too many threads", blocks(2048), 0, "I")
        grid, block = c_int(), c_int()
        asked = driver.cuOccupancyMaxPotentialBlockSize(byref(grid), byref(block), kernel, None, 0, 0)
        expect("best block size", asked, Result.SUCCESS, "D")
        expect.that("it is whole warps", block.value > 0 and block.value % 32 == 0, "D")
        expect.that("the grid fills the device", grid.value >= blocks(block.value), "D")
        room = c_size_t()
        asked = driver.cuOccupancyAvailableDynamicSMemPerBlock(byref(room), kernel, 2, 128)
        expect("room for shared memory", asked, Result.SUCCESS, "D")
        if driver.is_emulated:  # a real driver's answer counts what other settings take
            expect.that("so much shared memory leaves two blocks", blocks(128, room.value) >= 2, "D")


@skips
def test_the_launches_of_cuda_before_4(world: World, expect: Expectations) -> None:
    """The function keeps block, shared memory and parameters for cuLaunchGrid; without enough parameters -> 1."""
    driver, stream = world.driver, world.new_stream()
    with code.loaded(world) as module:
        kernel = code.function(world, module, "fill")
        count = c_size_t(0)
        expect("cuFuncGetParamCount", driver.cuFuncGetParamCount(kernel, byref(count)), Result.SUCCESS, "D")
        expect.equal("parameters", count.value, 3, "D")
        expect("a launch without parameters", driver.cuLaunch(kernel), Result.INVALID_VALUE, "I")
        address = c_uint64(world.new_allocation(4096))
        expect("block", driver.cuFuncSetBlockShape(kernel, 32, 2, 1), Result.SUCCESS, "D")
        expect("no block", driver.cuFuncSetBlockShape(kernel, 32, 0, 1), Result.INVALID_VALUE, "D")
        expect("shared", driver.cuFuncSetSharedSize(kernel, 64), Result.SUCCESS, "D")
        expect("size", driver.cuParamSetSize(kernel, 24), Result.SUCCESS, "D")
        expect("address", driver.cuParamSetv(kernel, 0, byref(address), 8), Result.SUCCESS, "D")
        expect("number", driver.cuParamSeti(kernel, 8, 1), Result.SUCCESS, "D")
        expect("float", driver.cuParamSetf(kernel, 16, 1.5), Result.SUCCESS, "D")
        expect("a negative offset", driver.cuParamSeti(kernel, -4, 1), Result.INVALID_VALUE, "I")
        expect("launch", driver.cuLaunchGrid(kernel, 2, 2), Result.SUCCESS, "D")
        expect("launch in a stream", driver.cuLaunchGridAsync(kernel, 2, 2, stream), Result.SUCCESS, "D")
        expect("no grid", driver.cuLaunchGrid(kernel, 0, 1), Result.INVALID_VALUE, "D")
        expect("block of too many threads", driver.cuFuncSetBlockShape(kernel, 1024, 2, 1), Result.SUCCESS, "I")
        expect("its launch", driver.cuLaunchGrid(kernel, 1, 1), Result.INVALID_VALUE, "D")
        world.must("cuCtxSynchronize", driver.cuCtxSynchronize())
