"""libnvidia-ml.so.1: NVML for the emulated devices."""

import ctypes
import os
import re
from pathlib import Path

import pytest

from helpers.processes import run_python
from memlake import DriverError, emulator, vmm
from memlake.libraries import cuda_library_directory, emulator_library

LISTS = Path(__file__).parents[3] / "emulator" / "nvml"

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 1, 2, 3, 6, 7
NO_PERMISSION, TIMEOUT = 4, 10
ARGUMENT_VERSION_MISMATCH, SYSTEM = 25, 50
PROHIBITED, COMPUTE_MODE, DEVICE_UNAVAILABLE = 2, 20, 46
NVLINK_COUNT, TOTAL_ENERGY, XID_ERROR = 91, 83, 8


@pytest.fixture
def nvml():
    library = ctypes.CDLL(str(Path(cuda_library_directory()) / "libnvidia-ml.so.1"))
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert library.nvmlInit_v2() == 0
    yield library
    assert library.nvmlShutdown() == 0


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def handle_of(nvml, gpu):
    """NVML's handle of a device, by its place on the bus, which the driver tells."""
    text, found = ctypes.create_string_buffer(32), ctypes.c_void_p()
    assert ctypes.CDLL(emulator_library()).cuDeviceGetPCIBusId(text, 32, gpu.ordinal) == 0
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(found)) == 0
    return found


def memory_of(nvml, handle):
    memory = Memory()
    assert nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
    return memory.total, memory.free, memory.used


def test_memory_is_that_of_the_driver(nvml, gpus):
    a, b = (handle_of(nvml, gpu) for gpu in gpus)
    total = gpus[0].total_memory
    assert memory_of(nvml, a) == (total, total, 0)
    segment = vmm.Segment.create(gpus[0], "6MiB")
    assert memory_of(nvml, a) == (total, total - 6 * 2**20, 6 * 2**20)
    assert memory_of(nvml, b) == (total, total, 0)
    segment.close()
    assert memory_of(nvml, a) == (total, total, 0)


class PciInfo(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint) for name in ("version", "domain", "bus", "device", "id", "subsystem")),
        ("classes", ctypes.c_uint * 2),
        ("bus_id", ctypes.c_char * 32),
    ]


def test_the_place_on_the_bus_is_that_of_the_driver(nvml, gpu):
    handle, info, text = handle_of(nvml, gpu), PciInfo(), ctypes.create_string_buffer(32)
    assert nvml.nvmlDeviceGetPciInfoExt(handle, ctypes.byref(info)) == ARGUMENT_VERSION_MISMATCH
    info.version = ctypes.sizeof(info) | 1 << 24
    assert nvml.nvmlDeviceGetPciInfoExt(handle, ctypes.byref(info)) == 0
    assert ctypes.CDLL(emulator_library()).cuDeviceGetPCIBusId(text, 32, gpu.ordinal) == 0
    assert info.bus_id.decode() == "0000" + text.value.decode()
    assert info.bus == int(text.value.split(b":")[1], 16)


def test_a_device_is_near_to_all_processors_and_to_no_other_device(nvml, gpus):
    a, b = (handle_of(nvml, gpu) for gpu in gpus)
    words = (ctypes.c_ulong * 64)()
    assert nvml.nvmlDeviceGetCpuAffinity(a, 64, words) == 0
    near = {i for i in range(64 * 64) if words[i // 64] >> i % 64 & 1}
    assert near >= os.sched_getaffinity(0)
    assert nvml.nvmlDeviceGetMemoryAffinity(a, 64, words, 0) == 0
    assert nvml.nvmlDeviceGetCpuAffinity(a, 0, words) == INVALID_ARGUMENT
    level, count, handles = ctypes.c_int(-1), ctypes.c_uint(0), (ctypes.c_void_p * 64)()
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(a, b, ctypes.byref(level)) == 0
    assert level.value == SYSTEM
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(a, a, ctypes.byref(level)) == 0
    assert level.value == 0
    assert nvml.nvmlDeviceGetTopologyNearestGpus(a, 10, ctypes.byref(count), None) == 0
    assert count.value == 0
    assert nvml.nvmlDeviceGetTopologyNearestGpus(a, SYSTEM, ctypes.byref(count), None) == 0
    assert nvml.nvmlDeviceGetTopologyNearestGpus(a, SYSTEM, ctypes.byref(count), handles) == 0
    assert b.value in handles[: count.value]
    assert a.value not in handles[: count.value]
    count.value = 1
    assert nvml.nvmlSystemGetTopologyGpuSet(0, ctypes.byref(count), handles) == 0
    assert count.value == 1


def test_a_closed_device_is_gone(nvml, memlake_emulator):
    count = ctypes.c_uint()

    def counted():
        assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        return count.value

    before = counted()
    devices = memlake_emulator.emulate(devices=2, memory="64MiB")
    handle = handle_of(nvml, devices[0])
    assert counted() == before + 2
    devices.close()
    assert counted() == before
    assert nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(Memory())) == INVALID_ARGUMENT


def test_wrong_arguments_are_refused(nvml, gpu):
    found = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(10**6, ctypes.byref(found)) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-0", ctypes.byref(found)) == NOT_FOUND
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"first", ctypes.byref(found)) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"0009:01:00.0", ctypes.byref(found)) == NOT_FOUND
    assert nvml.nvmlDeviceGetCount_v2(None) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetMemoryInfo(None, ctypes.byref(Memory())) == INVALID_ARGUMENT
    assert nvml.nvmlInitWithFlags(1 << 20) == INVALID_ARGUMENT
    handle = handle_of(nvml, gpu)
    assert nvml.nvmlDeviceGetName(handle, ctypes.create_string_buffer(3), 3) == INSUFFICIENT_SIZE
    assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, (ctypes.c_ulonglong * 5)()) == 25  # another version of the struct
    assert nvml.nvmlErrorString(NOT_FOUND) == b"Not Found"


def test_every_other_function_says_that_it_is_not_supported(nvml):
    names = {
        name: re.findall(r"^N\((\w+)\)", (LISTS / name).read_text(encoding="utf-8"), re.MULTILINE)
        for name in ("functions.inc", "unsupported.inc")
    }
    assert len(names["unsupported.inc"]) > 300
    assert [name for name in names["functions.inc"] if not hasattr(nvml, name)] == []
    assert {getattr(nvml, name)() for name in names["unsupported.inc"]} == {NOT_SUPPORTED}


def test_nothing_works_before_the_start_and_after_the_end():
    program = """
        import ctypes, sys
        nvml, count = ctypes.CDLL(sys.argv[1]), ctypes.c_uint()
        ask = lambda: nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        print(ask(), nvml.nvmlInit(), nvml.nvmlInit_v2(), ask(), nvml.nvmlShutdown(), ask(), nvml.nvmlShutdown(), ask(),
              nvml.nvmlShutdown(), count.value)
    """
    library = str(Path(cuda_library_directory()) / "libnvidia-ml.so.1")
    done = run_python(program, library, MEMLAKE_EMULATOR="devices=3,backing=none")
    assert done.stdout.split() == ["1", "0", "0", "0", "0", "0", "0", "1", "1", "3"], done.stderr


def test_hidden_devices_are_listed():
    program = """
        import ctypes, sys
        folder, count = sys.argv[1], ctypes.c_int()
        nvml, cuda = ctypes.CDLL(folder + "/libnvidia-ml.so.1"), ctypes.CDLL(folder + "/libcuda.so.1")
        assert nvml.nvmlInit_v2() == 0
        assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        before = count.value
        assert cuda.cuInit(0) == 0
        assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
        seen = count.value
        assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        print(before, seen, count.value)
    """
    environment = {"MEMLAKE_EMULATOR": "devices=3,backing=none", "CUDA_VISIBLE_DEVICES": "2"}
    done = run_python(program, cuda_library_directory(), **environment)
    assert done.stdout.split() == ["3", "1", "3"], done.stderr


def number_from(function, handle):
    number = ctypes.c_uint(77)
    assert function(handle, ctypes.byref(number)) == 0
    return number.value


def test_a_board_has_no_fan_and_is_no_part_of_another_device(nvml, gpu):
    handle = handle_of(nvml, gpu)
    assert number_from(nvml.nvmlDeviceGetNumFans, handle) == 0
    assert number_from(nvml.nvmlDeviceGetVirtualizationMode, handle) == 0
    assert number_from(nvml.nvmlDeviceGetPcieReplayCounter, handle) == 0
    assert nvml.nvmlDeviceGetNumFans(handle, None) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetNumFans(None, ctypes.byref(ctypes.c_uint())) == INVALID_ARGUMENT


def test_what_an_administrator_sets_is_kept_and_acts(nvml, memlake_emulator):
    with memlake_emulator.emulate(devices=2, memory="64MiB") as (gpu, other):
        handle, cuda, mode = handle_of(nvml, gpu), ctypes.CDLL(emulator_library()), ctypes.c_int(-1)
        if os.geteuid() != 0:
            assert nvml.nvmlDeviceSetComputeMode(handle, PROHIBITED) == NO_PERMISSION
            assert nvml.nvmlDeviceSetPersistenceMode(handle, 1) == NO_PERMISSION
            return
        assert nvml.nvmlDeviceSetPersistenceMode(handle, 2) == INVALID_ARGUMENT
        assert nvml.nvmlDeviceSetPersistenceMode(handle, 1) == 0
        assert number_from(nvml.nvmlDeviceGetPersistenceMode, handle) == 1
        assert number_from(nvml.nvmlDeviceGetPersistenceMode, handle_of(nvml, other)) == 0
        assert nvml.nvmlDeviceSetComputeMode(handle, 1) == NOT_SUPPORTED
        assert nvml.nvmlDeviceSetComputeMode(handle, PROHIBITED) == 0
        assert number_from(nvml.nvmlDeviceGetComputeMode, handle) == PROHIBITED
        assert cuda.cuDeviceGetAttribute(ctypes.byref(mode), COMPUTE_MODE, gpu.ordinal) == 0
        assert mode.value == PROHIBITED
        context = ctypes.c_void_p()
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, gpu.ordinal) == DEVICE_UNAVAILABLE
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, other.ordinal) == 0
        assert cuda.cuCtxDestroy_v2(context) == 0
        assert nvml.nvmlDeviceSetComputeMode(handle, 0) == 0
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, gpu.ordinal) == 0
        assert cuda.cuCtxDestroy_v2(context) == 0


class FieldValue(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("result", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


def test_each_field_says_whether_it_is_supported(nvml, gpu):
    handle, fields = handle_of(nvml, gpu), (FieldValue * 2)()
    fields[0].id, fields[1].id, fields[0].value = NVLINK_COUNT, TOTAL_ENERGY, 7
    assert nvml.nvmlDeviceGetFieldValues(handle, 2, fields) == 0
    assert [(field.result, field.value) for field in fields] == [(0, 0), (NOT_SUPPORTED, 0)]
    assert fields[1].timestamp >= fields[0].timestamp > 0
    assert nvml.nvmlDeviceGetFieldValues(handle, 0, None) == 0
    assert nvml.nvmlDeviceGetFieldValues(handle, 1, None) == INVALID_ARGUMENT


class EventData(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("instances", ctypes.c_uint * 2),
    ]


def test_a_context_that_work_has_lost_is_an_event(nvml, memlake_emulator):
    with memlake_emulator.emulate(devices=2, memory="64MiB") as gpus:
        handles = [handle_of(nvml, gpu) for gpu in gpus]
        events, data, kinds = ctypes.c_void_p(), EventData(), ctypes.c_ulonglong()
        assert nvml.nvmlDeviceGetSupportedEventTypes(handles[0], ctypes.byref(kinds)) == 0
        assert kinds.value == XID_ERROR
        assert nvml.nvmlEventSetCreate(ctypes.byref(events)) == 0
        for handle in handles:
            assert nvml.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(XID_ERROR), events) == 0
        assert nvml.nvmlDeviceRegisterEvents(handles[0], ctypes.c_ulonglong(1), events) == NOT_SUPPORTED
        assert nvml.nvmlEventSetWait_v2(events, ctypes.byref(data), 1) == TIMEOUT
        segment = vmm.Segment.create(gpus[1], "2MiB", access=())
        emulator.launch(gpus[1], "bad work", writes=[(segment.address, 8)])
        assert nvml.nvmlEventSetWait_v2(events, ctypes.byref(data), 600_000) == 0
        assert (data.device, data.type, data.data) == (handles[1].value, XID_ERROR, 31)
        assert nvml.nvmlEventSetWait_v2(events, ctypes.byref(data), 0) == TIMEOUT
        assert nvml.nvmlEventSetFree(events) == 0
        assert nvml.nvmlEventSetFree(events) == INVALID_ARGUMENT
        with pytest.raises(DriverError, match="700"):
            gpus[1].synchronize()
