import gc

import pytest

import memlake
from helpers.processes import assert_ends_well, run_python
from memlake import ClosedError, ConfigError, DriverError

TOTAL_CONSTANT_MEMORY, MULTIPROCESSOR_COUNT, UNKNOWN = 9, 16, 9999


def test_a_device_describes_itself(gpu):
    assert gpu.name
    assert len(gpu.uuid) == 36
    assert gpu.total_memory == gpu.free_memory == 64 * 2**20
    assert gpu.granularity == gpu.recommended_granularity == 2 * 2**20
    assert gpu.is_emulated
    assert gpu.is_host_backed
    assert repr(gpu) == f"EmulatedDevice(ordinal={gpu.ordinal}, name={gpu.name!r})"


def test_free_memory_falls_by_what_is_created(gpu):
    with memlake.vmm.create(gpu, "6MiB"):
        assert gpu.free_memory == gpu.total_memory - 6 * 2**20
    assert gpu.free_memory == gpu.total_memory


def test_uuids_tell_devices_apart(gpus):
    assert gpus[0].uuid != gpus[1].uuid


def test_attributes_are_asked_by_number(gpu):
    assert gpu.attribute(MULTIPROCESSOR_COUNT) > 0
    with pytest.raises(DriverError) as caught:
        gpu.attribute(UNKNOWN)
    assert caught.value.code == 1


def test_devices_of_one_call_are_peers(gpus):
    a, b = gpus
    assert a.peers == [b]
    assert b.peers == [a]
    assert a.can_access(b)
    assert a.can_access(a)


def test_devices_of_different_calls_are_not_peers(gpu, memlake_emulator):
    (other,) = memlake_emulator.emulate(memory="64MiB")
    assert not gpu.can_access(other)
    assert other not in gpu.peers


def test_can_access_wants_a_device(gpu):
    with pytest.raises(ConfigError, match="expected a memlake Device, got int"):
        gpu.can_access(0)


def test_a_device_is_equal_to_itself_found_again(gpu):
    found = [device for device in memlake.devices(memlake.emulator_library()) if device.ordinal == gpu.ordinal]
    assert found == [gpu]
    assert {gpu: "known"}[found[0]] == "known"
    assert gpu != gpu.ordinal


def test_devices_differ_by_ordinal(gpus):
    assert gpus[0] != gpus[1]
    assert len(set(gpus)) == 2


def test_a_closed_device_is_not_listed(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    ordinal = gpu.ordinal
    gpu.close()
    assert ordinal not in [device.ordinal for device in memlake.devices(memlake.emulator_library())]


def test_a_device_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match=r"use memlake\.devices\(\)"):
        memlake.Device()


def test_synchronize_waits_for_all_streams(gpu):
    segment = memlake.vmm.Segment.create(gpu, "4MiB")
    segment.fill(3, stream=gpu.create_stream())
    gpu.synchronize()
    assert (segment.numpy() == 3).all()


@pytest.mark.parametrize(
    "name", ["name", "uuid", "total_memory", "free_memory", "granularity", "peers", "is_host_backed"]
)
def test_a_closed_device_answers_that_it_is_closed(gpu, name):
    gpu.close()
    with pytest.raises(ClosedError, match="closed"):
        getattr(gpu, name)
    assert repr(gpu) == f"EmulatedDevice(ordinal={gpu.ordinal}, closed)"


def test_dropped_devices_can_be_found_again(memlake_emulator):
    ordinal = memlake_emulator.emulate(memory="64MiB")[0].ordinal
    gc.collect()
    assert ordinal in [device.ordinal for device in memlake.devices(memlake.emulator_library())]


def test_without_a_driver_there_are_no_devices():
    # In a process of its own: this one has the emulator as its libcuda.so.1.
    assert_ends_well("""
        import ctypes, memlake
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            assert memlake.devices() == []
    """)


@pytest.mark.parametrize("library", ["libno-such-driver.so", "/no/such/driver.so", __file__, "libc.so.6"])
def test_a_library_that_cannot_be_loaded_is_named(library):
    with pytest.raises(ConfigError) as caught:
        memlake.devices(library)
    assert library in str(caught.value)


def test_an_empty_library_is_refused():
    with pytest.raises(ConfigError, match="library is empty"):
        memlake.devices("")


def test_the_environment_may_name_the_library():
    program = "import memlake; print(len(memlake.devices()))"
    settings = {"MEMLAKE_EMULATOR": "devices=3,memory=64MiB"}
    assert run_python(program, MEMLAKE_DRIVER=memlake.emulator_library(), **settings).stdout == "3\n"
    done = run_python(program, MEMLAKE_DRIVER="libno-such-driver.so")
    assert done.returncode == 1
    assert "libno-such-driver.so" in done.stderr
