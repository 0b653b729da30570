"""Settings of contexts and old questions about devices, as a C program asks them."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p

import pytest

from memlake import emulator_library

INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, UNSUPPORTED_LIMIT, UNSUPPORTED_AFFINITY = 1, 101, 201, 215, 224


@pytest.fixture
def driver():
    return ctypes.CDLL(emulator_library())


@pytest.fixture
def context(driver, gpu):
    """A context of the test's own, current to this thread."""
    made, gone = c_void_p(), c_void_p()
    assert driver.cuCtxCreate_v2(byref(made), 0, gpu.ordinal) == 0
    yield made
    if driver.cuCtxDestroy_v2(made) == INVALID_CONTEXT:
        return  # the test ended it
    driver.cuCtxGetCurrent(byref(gone))
    assert gone.value != made.value


def test_a_limit_is_kept_for_its_context(driver, context):
    value = c_size_t()
    assert driver.cuCtxGetLimit(byref(value), 2) == 0
    assert value.value == 8 << 20
    assert driver.cuCtxSetLimit(2, c_size_t(32 << 20)) == 0
    assert driver.cuCtxGetLimit(byref(value), 2) == 0
    assert value.value == 32 << 20
    assert driver.cuCtxGetLimit(byref(value), 7) == UNSUPPORTED_LIMIT
    assert driver.cuCtxSetLimit(-1, c_size_t(1)) == UNSUPPORTED_LIMIT
    assert driver.cuCtxGetLimit(None, 2) == INVALID_VALUE
    assert value.value == 32 << 20


def test_caches_and_flags_are_kept_and_checked(driver, context):
    value = c_int(-1)
    for get, put, default, other, wrong in [
        (driver.cuCtxGetCacheConfig, driver.cuCtxSetCacheConfig, 0, 3, 4),
        (driver.cuCtxGetSharedMemConfig, driver.cuCtxSetSharedMemConfig, 1, 2, 3),
    ]:
        assert (get(byref(value)), value.value) == (0, default)
        assert (put(other), get(byref(value)), value.value) == (0, 0, other)
        assert (put(wrong), get(byref(value)), value.value) == (INVALID_VALUE, 0, other)
    assert driver.cuCtxSetFlags(4) == 0
    assert (driver.cuCtxGetFlags(byref(value)), value.value) == (0, 4)
    assert driver.cuCtxSetFlags(1 << 20) == INVALID_VALUE


def test_a_context_ends_when_it_is_detached_as_often_as_attached(driver, context):
    attached, current = c_void_p(), c_void_p()
    assert driver.cuCtxAttach(byref(attached), 0) == 0
    assert attached.value == context.value
    assert driver.cuCtxDetach(context) == 0
    assert driver.cuCtxGetCurrent(byref(current)) == 0
    assert current.value == context.value
    assert driver.cuCtxDetach(context) == 0
    assert driver.cuCtxGetCurrent(byref(current)) == 0
    assert current.value != context.value
    assert driver.cuCtxPushCurrent_v2(context) == INVALID_CONTEXT


def test_a_primary_context_is_not_detached(driver, gpu):
    primary, popped = c_void_p(), c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(byref(primary), gpu.ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(primary) == 0
    assert driver.cuCtxDetach(primary) == INVALID_CONTEXT
    assert driver.cuCtxPopCurrent_v2(byref(popped)) == 0
    assert popped.value == primary.value
    assert driver.cuDevicePrimaryCtxRelease_v2(gpu.ordinal) == 0


def test_settings_without_effect_need_a_context(driver, context):
    popped = c_void_p()
    calls = [
        driver.cuProfilerStart,
        driver.cuProfilerStop,
        driver.cuCtxResetPersistingL2Cache,
        lambda: driver.cuFlushGPUDirectRDMAWrites(0, 100),
    ]
    assert [call() for call in calls] == [0, 0, 0, 0]
    assert driver.cuFlushGPUDirectRDMAWrites(0, 5) == INVALID_VALUE
    assert driver.cuCtxGetExecAffinity(byref(c_int()), 0) == UNSUPPORTED_AFFINITY
    stack = []
    while driver.cuCtxPopCurrent_v2(byref(popped)) == 0:
        stack.append(popped.value)
    assert [call() for call in calls] == [INVALID_CONTEXT] * 4
    for handle in reversed(stack):
        assert driver.cuCtxPushCurrent_v2(c_void_p(handle)) == 0


def test_old_questions_about_devices_have_the_same_answers_as_the_new_ones(driver, gpus):
    major, minor, value, found = c_int(), c_int(), c_int(), c_int(-1)
    properties, text = (c_int * 14)(), ctypes.create_string_buffer(32)
    for gpu in gpus:
        assert driver.cuDeviceComputeCapability(byref(major), byref(minor), gpu.ordinal) == 0
        assert driver.cuDeviceGetProperties(properties, gpu.ordinal) == 0
        for index, attribute in enumerate(range(1, 15)):
            assert driver.cuDeviceGetAttribute(byref(value), attribute, gpu.ordinal) == 0
            assert properties[index] == value.value
        assert driver.cuDeviceGetAttribute(byref(value), 75, gpu.ordinal) == 0
        assert major.value == value.value
        assert driver.cuDeviceGetPCIBusId(text, 32, gpu.ordinal) == 0
        for written in (text.value, text.value.lower(), b"0000" + text.value, text.value[:-2]):
            assert driver.cuDeviceGetByPCIBusId(byref(found), written) == 0
            assert found.value == gpu.ordinal
        assert driver.cuDeviceGetExecAffinitySupport(byref(value), 0, gpu.ordinal) == 0
        assert value.value == 0
    assert driver.cuDeviceGetByPCIBusId(byref(found), b"0009:01:00.0") == INVALID_DEVICE
    assert driver.cuDeviceGetByPCIBusId(byref(found), b"no bus id") == INVALID_VALUE
    assert driver.cuDeviceComputeCapability(byref(major), byref(minor), 10**6) == INVALID_DEVICE
    assert found.value == gpus[-1].ordinal
