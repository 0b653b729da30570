"""Cases 1 to 9: initialisation, errors, contexts, entry points."""

from __future__ import annotations

from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING

import pytest

from emulator.contract.programs import run_program
from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

UNTOUCHED = 77


def test_case_001_before_init(driver: Driver, expect: Expectations) -> None:
    """Any call before cuInit (cuDeviceGetCount, cuMemCreate, cuMemAddressReserve) -> 3, out-params untouched."""
    answers = run_program("before_init", driver.library)
    for call in ("cuDeviceGetCount", "cuMemCreate", "cuMemAddressReserve"):
        expect(f"{call} before cuInit", answers[call], Result.NOT_INITIALIZED, "O")
    expect.that("out-parameters are untouched", answers["untouched"], "O")
    for call, code in answers.get("others", {}).items():
        expect(f"{call} before cuInit", code, Result.NOT_INITIALIZED, "D/O")


def test_case_002_init(world: World, expect: Expectations) -> None:
    """cuInit(1) -> 1; cuInit(0) twice -> 0, 0."""
    expect("cuInit(1)", world.driver.cuInit(1), Result.INVALID_VALUE, "D")
    expect("cuInit(0)", world.driver.cuInit(0), Result.SUCCESS, "D")
    expect("cuInit(0) again", world.driver.cuInit(0), Result.SUCCESS, "D")


def test_case_003_version_before_init(driver: Driver, expect: Expectations) -> None:
    """cuDriverGetVersion before cuInit -> 0, value >= 11020; NULL -> 1."""
    answers = run_program("before_init", driver.library)
    expect("cuDriverGetVersion before cuInit", answers["cuDriverGetVersion"], Result.SUCCESS, "D")
    expect.that("the version is at least 11.2", answers["version"] >= 11020, "D")
    expect("cuDriverGetVersion(NULL)", answers["cuDriverGetVersion(NULL)"], Result.INVALID_VALUE, "D")


def test_case_004_error_names(driver: Driver, expect: Expectations) -> None:
    """cuGetErrorName(1) -> "CUDA_ERROR_INVALID_VALUE"; cuGetErrorName(12345) -> 1 and NULL."""
    for ask, known in ((driver.cuGetErrorName, b"CUDA_ERROR_INVALID_VALUE"), (driver.cuGetErrorString, None)):
        text = c_char_p(b"untouched")
        expect(f"{ask.__name__}(1)", ask(1, byref(text)), Result.SUCCESS, "D")
        if known:
            expect.equal("the name of 1", text.value, known, "D")
        text = c_char_p(b"untouched")
        expect(f"{ask.__name__}(12345)", ask(12345, byref(text)), Result.INVALID_VALUE, "D")
        expect.equal(f"what {ask.__name__}(12345) points to", text.value, None, "D")


def test_case_005_bad_ordinals(world: World, expect: Expectations) -> None:
    """cuDeviceGet(&d,-1), (&d,N), cuDeviceGetAttribute(..., dev=N), cuDeviceTotalMem(..., N) -> 101."""
    driver, beyond = world.driver, world.count
    device, value, size = c_int(UNTOUCHED), c_int(UNTOUCHED), c_size_t(UNTOUCHED)
    expect("cuDeviceGet(-1)", driver.cuDeviceGet(byref(device), -1), Result.INVALID_DEVICE, "O")
    expect("cuDeviceGet(N)", driver.cuDeviceGet(byref(device), beyond), Result.INVALID_DEVICE, "O")
    code = driver.cuDeviceGetAttribute(byref(value), 102, beyond)
    expect("cuDeviceGetAttribute of device N", code, Result.INVALID_DEVICE, "O")
    code = driver.cuDeviceTotalMem(byref(size), beyond)
    expect("cuDeviceTotalMem of device N", code, Result.INVALID_DEVICE, "O")
    expect.equal("out-parameters", [device.value, value.value, size.value], [UNTOUCHED] * 3, "I")


def test_case_006_unknown_attribute(world: World, expect: Expectations) -> None:
    """cuDeviceGetAttribute(attr=9999) -> 1."""
    value = c_int(UNTOUCHED)
    code = world.driver.cuDeviceGetAttribute(byref(value), 9999, world.device)
    expect("cuDeviceGetAttribute(9999)", code, Result.INVALID_VALUE, "D")
    expect.equal("the out-parameter", value.value, UNTOUCHED, "I")


def test_case_007_primary_context_is_counted(world: World, expect: Expectations) -> None:
    """cuDevicePrimaryCtxRelease without retain -> 201; retain x2, release x2 -> 0, third -> 201."""
    device = world.device
    world.must("cuDevicePrimaryCtxRelease", world.release_context(device))  # the world's own
    expect("release without retain", world.release_context(device), Result.INVALID_CONTEXT, "D")
    for time in ("first", "second"):
        expect(f"{time} retain", world.retain_context(device), Result.SUCCESS, "D")
    for time in ("first", "second"):
        expect(f"{time} release", world.release_context(device), Result.SUCCESS, "D")
    expect("third release", world.release_context(device), Result.INVALID_CONTEXT, "D")
    world.must("cuDevicePrimaryCtxRetain", world.retain_context(device))
    world.use(device)


def test_case_008_memory_info_needs_a_context(world: World, expect: Expectations) -> None:
    """cuMemGetInfo with no current context -> 201."""
    free, total = c_size_t(UNTOUCHED), c_size_t(UNTOUCHED)
    world.must("cuCtxSetCurrent(NULL)", world.driver.cuCtxSetCurrent(None))
    code = world.driver.cuMemGetInfo(byref(free), byref(total))
    world.use(world.device)
    expect("cuMemGetInfo without a context", code, Result.INVALID_CONTEXT, "D")
    expect.equal("out-parameters", [free.value, total.value], [UNTOUCHED] * 2, "I")


def test_case_009_entry_points(world: World, expect: Expectations) -> None:
    """cuGetProcAddress("cuMemAlloc",3020) non-NULL; ("cuNoSuch") -> 0 with NULL, status 1; cudaVersion > driver -> 1.

    The status is the last argument of the version of CUDA 12."""
    driver = world.driver
    if "cuGetProcAddress" in driver.missing:
        pytest.skip("a driver older than 12.0 has no cuGetProcAddress_v2")
    function, status = c_void_p(), c_int(UNTOUCHED)
    code = driver.cuGetProcAddress(b"cuMemAlloc", byref(function), 3020, 0, byref(status))
    expect("cuGetProcAddress(cuMemAlloc, 3020)", code, Result.SUCCESS, "D")
    expect.that("the entry point is not NULL", function.value is not None, "D")
    expect.equal("its status", status.value, 0, "D")

    function, status = c_void_p(UNTOUCHED), c_int(UNTOUCHED)
    code = driver.cuGetProcAddress(b"cuNoSuch", byref(function), driver.version(), 0, byref(status))
    expect("cuGetProcAddress(cuNoSuch)", code, Result.SUCCESS, "D")
    expect.equal("the entry point of an unknown name", function.value, None, "D")
    expect.equal("the status of an unknown name", status.value, 1, "D")

    newer = driver.version() + 1000
    code = driver.cuGetProcAddress(b"cuMemAlloc", byref(function), newer, 0, byref(status))
    expect("cuGetProcAddress for a newer CUDA than the driver's", code, Result.INVALID_VALUE, "D")
