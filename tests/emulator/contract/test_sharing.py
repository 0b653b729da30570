"""Cases 67 to 71: memory that leaves the process as a file descriptor."""

from __future__ import annotations

import itertools
import os
from ctypes import byref, c_int, c_uint64
from typing import TYPE_CHECKING

import pytest

from emulator.contract.programs import run_program
from helpers.abi_types import ATTRIBUTE_POSIX_FD_SUPPORTED, HANDLE_POSIX_FD, HANDLE_WIN32, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

TEXT = b"written before"


@pytest.fixture(autouse=True)
def _can_share(world: World) -> None:
    supported = c_int(0)
    code = world.driver.cuDeviceGetAttribute(byref(supported), ATTRIBUTE_POSIX_FD_SUPPORTED, world.device)
    world.must("cuDeviceGetAttribute(103)", code)
    if not supported.value:
        pytest.skip("the device exports no file descriptors (attribute 103)")


def test_case_067_bad_exports(world: World, expect: Expectations) -> None:
    """Export a handle created without that handle type; flags 1; NULL out; type WIN32 on Linux -> 1."""
    export, fd = world.driver.cuMemExportToShareableHandle, c_int(-77)
    private = world.new_chunk(world.granularity)
    shared = world.new_chunk(world.granularity, handle_types=HANDLE_POSIX_FD)
    with expect.no_effect(world, "O"):
        code = export(byref(fd), private, HANDLE_POSIX_FD, 0)
        expect("a handle created without the type", code, Result.INVALID_VALUE, "O")
        expect("flags 1", export(byref(fd), shared, HANDLE_POSIX_FD, 1), Result.INVALID_VALUE, "O")
        expect("out NULL", export(None, shared, HANDLE_POSIX_FD, 0), Result.INVALID_VALUE, "O")
        expect("type WIN32", export(byref(fd), shared, HANDLE_WIN32, 0), Result.INVALID_VALUE, "O")
    expect.equal("the out-parameter", fd.value, -77, "I")


def test_case_068_each_export_is_its_own(world: World, expect: Expectations) -> None:
    """Export twice: two different fds; closing one leaves the other usable."""
    granule = world.granularity
    handle = world.new_chunk(granule, handle_types=HANDLE_POSIX_FD)
    fds = []
    for time in ("first", "second"):
        code, fd = world.export(handle)
        expect(f"{time} export", code, Result.SUCCESS, "O")
        fds.append(fd)
    expect.that("two different descriptors", fds[0] != fds[1], "O")
    os.close(fds[0])
    code, imported = world.import_fd(fds[1])
    os.close(fds[1])
    expect("import of the other", code, Result.SUCCESS, "O")
    address = world.new_reservation(granule)
    expect("M of it", world.map(address, granule, imported), Result.SUCCESS, "O")


@pytest.mark.granularities
def test_case_069_import(world: World, expect: Expectations) -> None:
    """Import (fd by value) -> map -> same bytes; release of both handles + close of fds + unmaps -> free restored, in
    any order."""
    granule, before = world.granularity, world.free_memory()

    def steps_that_end_it() -> list[Callable[[], int | None]]:
        handle = world.new_chunk(granule, handle_types=HANDLE_POSIX_FD)
        own, view = world.new_reservation(granule), world.new_reservation(granule)
        world.must("cuMemMap", world.map(own, granule, handle))
        world.must("cuMemSetAccess", world.access(own, granule))
        world.must("write", world.write(own, TEXT))
        code, fd = world.export(handle)
        expect("export", code, Result.SUCCESS, "D")
        code, imported = world.import_fd(fd)
        expect("import", code, Result.SUCCESS, "D")
        expect("M of the import", world.map(view, granule, imported), Result.SUCCESS, "D")
        world.must("cuMemSetAccess", world.access(view, granule))
        expect.equal("bytes of the import", world.read(view, len(TEXT)), (Result.SUCCESS, TEXT), "D")
        expect.equal("bytes taken, however often it is imported", before - world.free_memory(), granule, "I")
        return [
            lambda: world.release(handle),
            lambda: world.release(imported),
            lambda: os.close(fd),
            lambda: world.unmap(own, granule),
            lambda: world.unmap(view, granule),
        ]

    names = ["X(handle)", "X(import)", "close(fd)", "U(own)", "U(view)"]
    for order in itertools.permutations(range(5)):
        steps = steps_that_end_it()
        expect.note = ", ".join(names[step] for step in order)
        for step in order[:-1]:
            expect(names[step], steps[step]() or 0, Result.SUCCESS, "D")
        expect.equal("bytes taken before the last step", before - world.free_memory(), granule, "D")
        expect(names[order[-1]], steps[order[-1]]() or 0, Result.SUCCESS, "D")
        expect.equal("bytes taken after the last step", before - world.free_memory(), 0, "D")
        for address, size in list(world.reservations.items()):
            world.must("cuMemAddressFree", world.address_free(address, size))


def test_case_070_bad_imports(world: World, expect: Expectations) -> None:
    """Import of /dev/null fd, -1 -> 1; NULL out -> 1."""
    handle = c_uint64(77)
    load = world.driver.cuMemImportFromShareableHandle
    exported_code, exported = world.export(world.new_chunk(world.granularity, handle_types=HANDLE_POSIX_FD))
    world.must("cuMemExportToShareableHandle", exported_code)
    null = os.open("/dev/null", os.O_RDWR)
    try:
        with expect.no_effect(world, "O/I"):
            code = load(byref(handle), null, HANDLE_POSIX_FD)
            expect("import of /dev/null", code, Result.INVALID_VALUE, "O/I")
            expect("import of -1", load(byref(handle), -1, HANDLE_POSIX_FD), Result.INVALID_VALUE, "O/I")
            expect("out NULL", load(None, exported, HANDLE_POSIX_FD), Result.INVALID_VALUE, "O/I")
        expect.equal("the out-parameter", handle.value, 77, "I")
    finally:
        os.close(null)
        os.close(exported)


def test_case_071_between_processes(driver: Driver, expect: Expectations) -> None:
    """Parent -> child process over SCM_RIGHTS: child reads what parent wrote; parent exits first, child's data
    remains."""
    answers = run_program("share_parent", driver.library)
    expect("import in the child", answers["import"], Result.SUCCESS, "D")
    expect.equal("what the child reads", answers["read"], "written by the parent", "D")
    expect.equal("what it reads after the parent's exit", answers["read_after_exit"], "written by the parent", "D")
    expect("a write after the exit", answers["write_after_exit"], Result.SUCCESS, "D")
    expect("import after the exit", answers["import_after_exit"], Result.SUCCESS, "D")
    expect.equal("what that import shows", answers["read_of_second_import"], "written by the child ", "D")
