"""CUDA_VISIBLE_DEVICES: which devices of MEMLAKE_EMULATOR a program sees, and in which order."""

import json

import pytest

import memlake
from helpers.processes import run_python

PROGRAM = """
    import ctypes, json, sys
    driver = ctypes.CDLL(sys.argv[1])
    driver.memlakeEmulatorLastError.restype = ctypes.c_char_p
    code, count, numbers, text = driver.cuInit(0), ctypes.c_int(0), [], ctypes.create_string_buffer(20)
    sentence = driver.memlakeEmulatorLastError().decode()
    if code == 0:
        assert driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    for device in range(count.value):
        assert driver.cuDeviceGetPCIBusId(text, 20, device) == 0
        numbers.append(int(text.value[5:7], 16) - 1)
    reached = ctypes.c_int(0)
    peers = [
        [driver.cuDeviceCanAccessPeer(ctypes.byref(reached), one, other) or reached.value
         for other in range(count.value)] for one in range(count.value)
    ]
    print(json.dumps([code, numbers, sentence, peers]))
"""


def visible(settings="devices=4,backing=none", **environment):
    done = run_python(PROGRAM, memlake.emulator_library(), MEMLAKE_EMULATOR=settings, **environment)
    assert done.returncode == 0, done.stderr
    code, numbers, sentence, peers = json.loads(done.stdout)
    return code, numbers, sentence, peers


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("0", [0]),
        ("1,0", [1, 0]),
        ("2,1,3", [2, 1, 3]),
        (" 1 , 2 ", [1, 2]),
        ("0,2,-1,1", [0, 2]),  # the first invalid entry ends the list
        ("1,9,0", [1]),
        ("0,", [0]),
        ("1,two", [1]),
        ("GPU-3c6ef362-6d65-6d6c-616b-652d656d756c", [1]),
        ("GPU-3c", [1]),  # a beginning that only one device has
        ("GPU-3C6E,0", [1, 0]),
        ("2,GPU-3c", [2, 1]),
        ("0,GPU-", [0]),  # the beginning of all of them names none
    ],
)
def test_the_list_selects_and_orders_the_devices(value, numbers):
    code, seen, _, _ = visible(CUDA_VISIBLE_DEVICES=value)
    assert (code, seen) == (0, numbers)


@pytest.mark.parametrize("value", ["", "-1", "4", "0,0", "1,0,1", "0,GPU-9e37", "NoDevFiles", "GPU-", "MIG-1", "1.5"])
def test_a_list_without_a_device_hides_all(value):
    code, seen, sentence, _ = visible(CUDA_VISIBLE_DEVICES=value)
    assert (code, seen) == (100, [])
    assert "CUDA_VISIBLE_DEVICES" in sentence


@pytest.mark.parametrize("order", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_both_orders_of_devices_are_the_same(order):
    assert visible(CUDA_DEVICE_ORDER=order)[:2] == (0, [0, 1, 2, 3])


def test_peers_stay_those_of_the_devices():
    code, seen, _, peers = visible("devices=3,backing=none,peers=010/001/100", CUDA_VISIBLE_DEVICES="2,0")
    assert (code, seen) == (0, [2, 0])
    assert peers == [[0, 1], [0, 0]]  # device 2 reaches device 0, and not the other way round


def test_the_default_device_can_be_hidden():
    assert visible("", CUDA_VISIBLE_DEVICES="1")[0] == 100
    assert visible("", CUDA_VISIBLE_DEVICES="0")[:2] == (0, [0])


def test_devices_that_the_program_adds_are_always_visible():
    program = """
        import memlake
        (added,) = memlake.emulate(memory="64MiB")
        print(added.ordinal, added.free_memory)
    """
    beside_one = run_python(program, MEMLAKE_EMULATOR="devices=2,backing=none", CUDA_VISIBLE_DEVICES="1")
    assert beside_one.stdout.split() == ["1", str(64 * 2**20)], beside_one.stderr
    alone = run_python(program, MEMLAKE_EMULATOR="", CUDA_VISIBLE_DEVICES="")
    assert alone.stdout.split() == ["0", str(64 * 2**20)], alone.stderr
