"""Has memory on the two devices of MEMLAKE_EMULATOR, and answers questions on stdin until it is told to end."""

from __future__ import annotations

import ctypes
import sys
import threading
from ctypes import byref, c_int, c_uint64, create_string_buffer
from pathlib import Path
from typing import Any

from helpers.abi_driver import Driver
from helpers.abi_process import initialize
from helpers.abi_world import World

TEXT = b"kept over the checkpoint"


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def used_memory(nvml: Any, uuid: bytes) -> int:
    """What NVML says of the device: it goes on while the driver is locked."""
    text = uuid.hex()
    name = f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    handle, memory = ctypes.c_void_p(), Memory()
    codes = (
        nvml.nvmlDeviceGetHandleByUUID(name.encode(), byref(handle)),
        nvml.nvmlDeviceGetMemoryInfo(handle, byref(memory)),
    )
    if codes != (0, 0):
        raise SystemExit(f"NVML answered {codes}")
    return memory.used


def main() -> None:
    driver = Driver(sys.argv[1])
    initialize(driver)
    first = 0
    world = World(driver, [first, first + 1])
    nvml = ctypes.CDLL(str(Path(sys.argv[1]).parent / "cuda" / "libnvidia-ml.so.1"))
    nvml.nvmlInit_v2()
    address = world.new_allocation(1 << 20)
    world.must("write", world.write(address, TEXT))
    stream = world.new_stream()
    world.must("cuDeviceGetCount", driver.cuDeviceGetCount(byref(c_int())))
    uuid = create_string_buffer(16)
    world.must("cuDeviceGetUuid", driver.cuDeviceGetUuid(uuid, first))
    first_uuid, gate, waiting = uuid.raw, c_uint64(0), None
    hold, release = ctypes.CDLL(sys.argv[1]).memlakeEmulatorHold, ctypes.CDLL(sys.argv[1]).memlakeEmulatorOpen
    hold.argtypes, release.argtypes = [ctypes.c_void_p, ctypes.c_void_p], [c_uint64]
    for line in sys.stdin:
        match line.strip():
            case "uuids":
                told = []
                for device in (first, first + 1):
                    world.must("cuDeviceGetUuid", driver.cuDeviceGetUuid(uuid, device))
                    told.append(uuid.raw.hex())
                print(*told, flush=True)
            case "bytes":
                print(world.read(address, len(TEXT))[1].decode().replace(" ", "_"), flush=True)
            case "used":
                print(used_memory(nvml, first_uuid), flush=True)
            case "hold":
                print(hold(stream, byref(gate)), flush=True)
            case "open":
                print(release(gate), flush=True)
            case "call":
                before = driver.ledger()["calls"]["cuDeviceGetCount"]
                waiting = threading.Thread(target=driver.cuDeviceGetCount, args=(byref(c_int()),))
                waiting.start()
                while driver.ledger()["calls"]["cuDeviceGetCount"] == before:  # it is counted when it begins
                    pass
                print("begun", flush=True)
            case "is_waiting":
                print(waiting is not None and waiting.is_alive(), flush=True)
            case "join":
                if waiting is not None:
                    waiting.join()
                print("joined", flush=True)


main()
