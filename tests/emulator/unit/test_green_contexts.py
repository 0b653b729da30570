"""Green contexts, multiprocessors as a resource, and events of whole contexts, as a C program uses them."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p, sizeof

import pytest

import memlake
from memlake import emulator_library

NON_BLOCKING, DEFAULT_STREAM, DISABLE_TIMING = 1, 1, 2
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, DESTROYED = 1, 201, 400, 600, 709
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, RESOURCE_TYPE, RESOURCE_CONFIGURATION = 900, 901, 914, 915
LAUNCH_FAILED = 719


class Resource(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("internal", ctypes.c_ubyte * 92),
        ("count", c_uint),
        ("least", c_uint),
        ("alignment", c_uint),
        ("rest", ctypes.c_ubyte * 36),
    ]


@pytest.fixture
def driver():
    library = ctypes.CDLL(emulator_library())
    library.cuMemFree_v2.argtypes = [c_ulonglong]
    library.cuMemFreeAsync.argtypes = [c_ulonglong, c_void_p]
    library.cuMemsetD8Async.argtypes = [c_ulonglong, ctypes.c_ubyte, c_size_t, c_void_p]
    return library


@pytest.fixture
def primary(driver, gpu):
    """The primary context, current to this thread."""
    context = c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(byref(context), gpu.ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    yield context
    driver.cuCtxPopCurrent_v2(None)
    assert driver.cuDevicePrimaryCtxRelease_v2(gpu.ordinal) == 0


@pytest.fixture
def whole(driver, gpu):
    resource = Resource()
    assert sizeof(resource) == 144
    assert driver.cuDeviceGetDevResource(gpu.ordinal, byref(resource), 1) == 0
    return resource


@pytest.fixture
def green(driver, gpu, primary, whole):
    """Makes green contexts of 10 multiprocessors; they are destroyed at the end, unless the test has done it."""
    groups, count = (Resource * 4)(), c_uint(4)
    assert driver.cuDevSmResourceSplitByCount(groups, byref(count), byref(whole), None, 0, 10) == 0
    made = []

    def make():
        description, context = c_void_p(), c_void_p()
        assert driver.cuDevResourceGenerateDesc(byref(description), byref(groups[len(made)]), 1) == 0
        assert driver.cuGreenCtxCreate(byref(context), description, gpu.ordinal, DEFAULT_STREAM) == 0
        made.append(context)
        return context

    yield make
    for context in made:
        assert driver.cuGreenCtxDestroy(context) in (0, DESTROYED)


def view_of(driver, green_context):
    view = c_void_p()
    assert driver.cuCtxFromGreenCtx(byref(view), green_context) == 0
    return view


def stream_of(driver, green_context):
    stream = c_void_p()
    assert driver.cuGreenCtxStreamCreate(byref(stream), green_context, NON_BLOCKING, 0) == 0
    return stream


def new_event(driver):
    event = c_void_p()
    assert driver.cuEventCreate(byref(event), DISABLE_TIMING) == 0
    return event


def hold(driver, stream):
    gate = c_ulonglong()
    assert driver.memlakeEmulatorHold(stream, byref(gate)) == 0
    return gate


def test_a_split_makes_groups_of_equal_size_and_a_remainder(driver, whole):
    total, groups, rest, count = whole.count, (Resource * 3)(), Resource(), c_uint(3)
    assert (whole.least, whole.alignment) == (4, 2)
    assert driver.cuDevSmResourceSplitByCount(groups, byref(count), byref(whole), byref(rest), 0, 15) == 0
    assert count.value == 3
    assert [group.count for group in groups] == [16, 16, 16]
    assert rest.count == total - 48
    assert driver.cuDevSmResourceSplitByCount(None, byref(count), byref(whole), None, 0, 0) == 0
    assert count.value == total // 4
    assert driver.cuDevSmResourceSplitByCount(None, byref(count), byref(whole), None, 1, 1) == 0
    assert count.value == total // 2
    count.value = 3
    assert driver.cuDevSmResourceSplitByCount(groups, byref(count), byref(whole), byref(rest), 0, total) == 0
    assert (count.value, groups[0].count, rest.type, rest.count) == (1, total, 0, 0)


def test_what_cannot_be_split_is_refused(driver, gpu, whole):
    groups, count, other = (Resource * 3)(), c_uint(3), Resource()
    split = driver.cuDevSmResourceSplitByCount
    assert driver.cuDeviceGetDevResource(gpu.ordinal, byref(other), 1000) == RESOURCE_TYPE
    assert split(groups, byref(count), byref(other), None, 0, 4) == RESOURCE_TYPE
    assert split(groups, byref(count), byref(whole), None, 0, whole.count + 1) == INVALID_VALUE
    assert split(groups, byref(count), byref(whole), None, 2, 4) == INVALID_VALUE
    assert split(groups, None, byref(whole), None, 0, 4) == INVALID_VALUE
    assert split(groups, byref(count), byref(whole), None, 0, 4) == 0
    assert split(groups, byref(count), byref(groups[0]), None, 0, 4) == RESOURCE_CONFIGURATION
    groups[0].count = 100
    assert split(groups, byref(count), byref(groups[0]), None, 0, 4) == INVALID_VALUE


def test_resources_of_one_description_come_from_one_split(driver, whole):
    groups, others, count, description = (Resource * 3)(), (Resource * 3)(), c_uint(3), c_void_p()
    for made in (groups, others):
        assert driver.cuDevSmResourceSplitByCount(made, byref(count), byref(whole), None, 0, 4) == 0
    both = (Resource * 2)(groups[0], groups[2])
    assert driver.cuDevResourceGenerateDesc(byref(description), both, 2) == 0
    both[1] = others[1]
    assert driver.cuDevResourceGenerateDesc(byref(description), both, 2) == RESOURCE_CONFIGURATION
    both[1] = groups[0]
    assert driver.cuDevResourceGenerateDesc(byref(description), both, 2) == RESOURCE_CONFIGURATION
    assert driver.cuDevResourceGenerateDesc(byref(description), both, 0) == INVALID_VALUE


def test_a_green_context_has_its_part_of_the_device(driver, gpu, primary, whole, green):
    one, told, view = green(), Resource(), c_void_p()
    assert driver.cuGreenCtxGetDevResource(one, byref(told), 1) == 0
    assert told.count == 10
    view = view_of(driver, one)
    assert driver.cuCtxGetDevResource(view, byref(told), 1) == 0
    assert told.count == 10
    assert driver.cuCtxGetDevResource(primary, byref(told), 1) == 0
    assert told.count == whole.count
    device, identity, other = c_int(-1), c_ulonglong(), c_ulonglong()
    assert driver.cuCtxGetDevice_v2(byref(device), view) == 0
    assert device.value == gpu.ordinal
    assert driver.cuCtxGetId(view, byref(identity)) == 0
    assert driver.cuCtxGetId(primary, byref(other)) == 0
    assert identity.value != other.value
    assert driver.cuCtxSetCurrent(one) == INVALID_CONTEXT  # only its view is a CUcontext
    assert driver.cuGreenCtxStreamCreate(byref(c_void_p()), one, 0, 0) == INVALID_VALUE


def test_streams_know_their_green_context(driver, primary, green):
    one, context, told = green(), c_void_p(), c_void_p()
    view, stream = view_of(driver, one), stream_of(driver, one)
    assert driver.cuStreamGetCtx(stream, byref(context)) == 0
    assert context.value == view.value
    assert driver.cuStreamGetCtx_v2(stream, byref(context), byref(told)) == 0
    assert (context.value, told.value) == (primary.value, one.value)
    assert driver.cuStreamGetGreenCtx(None, byref(told)) == 0
    assert told.value is None
    assert driver.cuCtxPushCurrent_v2(view) == 0
    assert driver.cuCtxGetCurrent(byref(context)) == 0
    assert context.value == view.value
    assert driver.cuStreamGetGreenCtx(None, byref(told)) == 0
    assert told.value == one.value
    made = c_void_p()
    assert driver.cuStreamCreate(byref(made), 0) == 0
    assert driver.cuStreamGetGreenCtx(made, byref(told)) == 0
    assert told.value == one.value
    assert driver.cuCtxPopCurrent_v2(byref(context)) == 0
    assert context.value == view.value
    for gone in (stream, made):
        assert driver.cuStreamDestroy_v2(gone) == 0


def test_memory_of_a_green_context_belongs_to_the_primary_context(driver, green):
    one, address = green(), c_ulonglong()
    assert driver.cuCtxPushCurrent_v2(view_of(driver, one)) == 0
    assert driver.cuMemAlloc_v2(byref(address), c_size_t(1 << 20)) == 0
    assert driver.cuCtxPopCurrent_v2(None) == 0
    assert driver.cuGreenCtxDestroy(one) == 0
    assert driver.cuMemFree_v2(address.value) == 0


def test_after_the_end_its_streams_and_its_view_answer_709(driver, green):
    one = green()
    view, stream, context = view_of(driver, one), stream_of(driver, one), c_void_p()
    assert driver.cuGreenCtxDestroy(one) == 0
    assert driver.cuStreamQuery(stream) == DESTROYED
    assert driver.cuStreamDestroy_v2(stream) == DESTROYED
    assert driver.cuGreenCtxDestroy(one) == DESTROYED
    assert driver.cuCtxFromGreenCtx(byref(context), one) == DESTROYED
    assert driver.cuCtxSetCurrent(view) == INVALID_CONTEXT


def test_a_green_context_retains_the_primary_context(driver, gpu, green):
    def retains():
        return [context.retained for context in memlake.emulator.ledger().contexts if context.device == gpu.ordinal]

    (before,) = retains()
    one = green()
    assert retains() == [before + 1]
    assert driver.cuGreenCtxDestroy(one) == 0
    assert retains() == [before]


def test_a_wait_for_a_green_context_waits_for_its_streams_only(driver, primary, green):
    one, two = green(), green()
    held, other = stream_of(driver, one), stream_of(driver, two)
    gate = hold(driver, held)
    assert driver.cuCtxSynchronize_v2(view_of(driver, two)) == 0
    assert driver.cuStreamQuery(held) == NOT_READY
    assert driver.memlakeEmulatorOpen(gate) == 0
    assert driver.cuCtxSynchronize_v2(primary) == 0  # and with it all its green contexts
    assert driver.cuStreamQuery(held) == 0
    for stream in (held, other):
        assert driver.cuStreamDestroy_v2(stream) == 0


def test_an_event_of_a_context_comes_behind_all_its_streams(driver, primary, green):
    one = green()
    inside, outside, event, of_green = stream_of(driver, one), c_void_p(), new_event(driver), new_event(driver)
    assert driver.cuStreamCreate(byref(outside), NON_BLOCKING) == 0
    gate = hold(driver, outside)
    assert driver.cuCtxRecordEvent(primary, event) == 0
    assert driver.cuGreenCtxRecordEvent(one, of_green) == 0
    assert driver.cuEventQuery(event) == NOT_READY
    assert driver.cuEventSynchronize(of_green) == 0  # nothing runs in the green context
    assert driver.memlakeEmulatorOpen(gate) == 0
    assert driver.cuEventSynchronize(event) == 0
    assert driver.cuStreamQuery(outside) == 0
    for stream in (inside, outside):
        assert driver.cuStreamDestroy_v2(stream) == 0


def test_all_streams_of_a_context_wait_for_an_event_also_later_ones(driver, primary, green):
    one = green()
    held, inside, outside, later, event = c_void_p(), stream_of(driver, one), c_void_p(), c_void_p(), new_event(driver)
    assert driver.cuStreamCreate(byref(held), NON_BLOCKING) == 0
    assert driver.cuStreamCreate(byref(outside), NON_BLOCKING) == 0
    gate = hold(driver, held)
    assert driver.cuEventRecord(event, held) == 0
    assert driver.cuGreenCtxWaitEvent(one, event) == 0
    assert driver.cuStreamQuery(inside) == NOT_READY
    assert driver.cuStreamQuery(outside) == 0
    later = stream_of(driver, one)
    assert driver.cuStreamQuery(later) == NOT_READY
    assert driver.cuCtxWaitEvent(primary, event) == 0
    assert driver.cuStreamQuery(outside) == NOT_READY
    assert driver.memlakeEmulatorOpen(gate) == 0
    assert driver.cuCtxSynchronize_v2(primary) == 0
    for stream in (held, inside, outside, later):
        assert driver.cuStreamQuery(stream) == 0
        assert driver.cuStreamDestroy_v2(stream) == 0


def test_an_event_of_a_context_orders_a_free(driver, primary):
    """Without the event the free is a violation, although the work has ended."""
    used, freeing, event, address = c_void_p(), c_void_p(), new_event(driver), c_ulonglong()
    assert driver.cuStreamCreate(byref(used), NON_BLOCKING) == 0
    assert driver.cuStreamCreate(byref(freeing), NON_BLOCKING) == 0
    assert driver.cuMemAllocAsync(byref(address), c_size_t(4096), used) == 0
    assert driver.cuMemsetD8Async(address.value, 7, 4096, used) == 0
    assert driver.cuMemFreeAsync(address.value, freeing) == LAUNCH_FAILED
    assert driver.cuCtxRecordEvent(primary, event) == 0
    assert driver.cuStreamWaitEvent(freeing, event, 0) == 0
    assert driver.cuMemFreeAsync(address.value, freeing) == 0
    for stream in (used, freeing):
        assert driver.cuStreamDestroy_v2(stream) == 0
    assert driver.memlakeEmulatorResetLedger() == 0


def test_events_of_a_context_spoil_its_captures(driver, primary):
    stream, event, graph = c_void_p(), new_event(driver), c_void_p()
    assert driver.cuStreamCreate(byref(stream), NON_BLOCKING) == 0
    for call in (driver.cuCtxRecordEvent, driver.cuCtxWaitEvent):
        assert driver.cuStreamBeginCapture_v2(stream, 2) == 0
        assert call(primary, event) == CAPTURE_UNSUPPORTED
        assert driver.cuStreamEndCapture(stream, byref(graph)) == CAPTURE_INVALIDATED
    assert driver.cuStreamDestroy_v2(stream) == 0


def test_an_event_of_another_device_is_refused(driver, gpus):
    contexts = [c_void_p(), c_void_p()]
    for context, device in zip(contexts, gpus, strict=True):
        assert driver.cuDevicePrimaryCtxRetain(byref(context), device.ordinal) == 0
    assert driver.cuCtxPushCurrent_v2(contexts[0]) == 0
    event = new_event(driver)
    assert driver.cuCtxRecordEvent(contexts[1], event) == INVALID_HANDLE
    assert driver.cuCtxWaitEvent(contexts[1], event) == 0
    assert driver.cuEventDestroy_v2(event) == 0
    assert driver.cuCtxPopCurrent_v2(None) == 0
    for device in gpus:
        assert driver.cuDevicePrimaryCtxRelease_v2(device.ordinal) == 0
