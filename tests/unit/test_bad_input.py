"""Every misuse gets the documented error and changes nothing. The same for the C functions: tests/emulator/contract."""

import os
import shutil
import subprocess
import sys

import pytest

import memlake
from helpers.pictures import picture
from memlake import ClosedError, ConfigError, ContractViolation, DriverError, InvalidFree, vmm

GRANULE = 2 * 2**20
INVALID_VALUE, INVALID_DEVICE = 1, 101


@pytest.fixture
def world(gpus):
    """A reservation of four granules with a chunk mapped at the first two, and a free chunk."""
    addresses = vmm.reserve(gpus[0], 4 * GRANULE)
    mapped, free = vmm.create(gpus[0], 2 * GRANULE), vmm.create(gpus[0], GRANULE)
    mapping = addresses.map(mapped, access=gpus[0])
    mapping.fill(5)
    before = picture(gpus)
    yield addresses, mapping, free
    assert picture(gpus) == before
    assert (mapping.numpy() == 5).all()


@pytest.fixture
def other_driver(tmp_path_factory):
    """A device of a second driver: a copy of the emulator is a library of its own."""
    copy = tmp_path_factory.getbasetemp() / "libcopy_of_emulator.so"
    if not copy.exists():
        shutil.copyfile(memlake.emulator_library(), copy)
    return memlake.devices(copy)[0]


@pytest.mark.parametrize("nbytes", [0, 1, GRANULE - 1, GRANULE + 4096])
def test_sizes_that_are_no_multiple_of_the_granularity(gpu, world, nbytes):
    with pytest.raises(DriverError) as caught:
        vmm.create(gpu, nbytes)
    assert (caught.value.call, caught.value.code) == ("cuMemCreate", INVALID_VALUE)
    assert caught.value.kind == "invalid_call"


@pytest.mark.parametrize(
    ("offset", "nbytes"), [(1, GRANULE), (2 * GRANULE + 4096, GRANULE), (2 * GRANULE, 4096), (2 * GRANULE, 0)]
)
def test_places_that_are_not_aligned(world, offset, nbytes):
    addresses, _, free = world
    with pytest.raises(DriverError) as caught:
        addresses.map(free, offset, nbytes=nbytes)
    assert (caught.value.call, caught.value.code) == ("cuMemMap", INVALID_VALUE)


def test_more_than_the_chunk_has(world):
    addresses, _, free = world
    with pytest.raises(DriverError) as caught:
        addresses.map(free, 2 * GRANULE, nbytes=2 * GRANULE)
    assert caught.value.code == INVALID_VALUE


@pytest.mark.parametrize("offset", [4 * GRANULE, 100 * GRANULE])
def test_places_outside_the_reservation(world, offset):
    addresses, _, free = world
    with pytest.raises(ConfigError, match="not inside"):
        addresses.map(free, offset)


@pytest.mark.parametrize("offset", [0, GRANULE])
def test_mapping_twice_at_one_place(world, offset):
    addresses, _, free = world
    with pytest.raises(DriverError) as caught:
        addresses.map(free, offset)
    assert (caught.value.call, caught.value.code) == ("cuMemMap", INVALID_VALUE)


def test_unmapping_a_part(world):
    addresses, _, _ = world
    with pytest.raises(ConfigError, match="only whole mappings"):
        addresses.unmap(0, GRANULE)


def test_setting_access_to_a_part_or_to_nothing(gpu, world):
    addresses, _, _ = world
    for offset, nbytes in ((0, GRANULE), (2 * GRANULE, GRANULE), (0, 4 * GRANULE), (0, 0)):
        with pytest.raises(DriverError) as caught:
            addresses.set_access(gpu, "r", offset=offset, nbytes=nbytes)
        assert caught.value.code == INVALID_VALUE
    with pytest.raises(DriverError):
        addresses.access(gpu, 2 * GRANULE)


def test_releasing_twice(gpus):
    with vmm.create(gpus[0], GRANULE) as chunk:
        pass
    before = picture(gpus)
    with pytest.raises(InvalidFree):
        chunk.close()
    assert picture(gpus) == before


def test_handles_of_another_driver(gpu, world, other_driver):
    addresses, mapping, _ = world
    foreign = vmm.create(other_driver, GRANULE)
    for misuse in (
        lambda: addresses.map(foreign, 2 * GRANULE),
        lambda: vmm.stitch([vmm.create(gpu, GRANULE), foreign]),
        lambda: mapping.set_access(other_driver, "rw"),
        lambda: mapping.access(other_driver),
        lambda: mapping.fill(0, stream=other_driver.create_stream()),
        lambda: vmm.Segment.create(gpu, GRANULE, access=[gpu, other_driver]),
    ):
        with pytest.raises(ConfigError, match="another driver"):
            misuse()
    assert foreign.is_free
    assert not gpu.can_access(other_driver)
    assert gpu != other_driver


@pytest.mark.parametrize("thing", [None, 5, "chunk", object()])
def test_things_that_are_no_chunks(world, thing):
    addresses, _, _ = world
    for misuse in (lambda: addresses.map(thing, 2 * GRANULE), lambda: vmm.stitch([thing])):
        with pytest.raises(ConfigError, match="expected a memlake Chunk"):
            misuse()


@pytest.mark.parametrize("thing", [None, 0, "gpu"])
def test_things_that_are_no_devices(world, thing):
    addresses, mapping, free = world
    for misuse in (
        lambda: vmm.create(thing, GRANULE),
        lambda: vmm.reserve(thing, GRANULE),
        lambda: vmm.Segment.create(thing, GRANULE),
        lambda: vmm.import_chunk(thing, 0, GRANULE),
        lambda: addresses.map(free, 2 * GRANULE, access=[thing]),
        lambda: mapping.set_access([thing], "rw"),
    ):
        with pytest.raises(ConfigError, match="expected a memlake Device"):
            misuse()


@pytest.mark.parametrize("nbytes", [-1, "-2MiB", 2**63, "99999PiB", True, 1.5, None, "much", float("nan")])
def test_negative_and_absurd_sizes(gpu, world, nbytes):
    addresses, mapping, free = world
    for misuse in (
        lambda: vmm.create(gpu, nbytes),
        lambda: vmm.reserve(gpu, nbytes),
        lambda: vmm.reserve(gpu, GRANULE, alignment=nbytes),
        lambda: vmm.Segment.create(gpu, nbytes),
        lambda: addresses.map(free, nbytes),
        lambda: mapping.fill(0, offset=nbytes),
    ):
        with pytest.raises(ConfigError):
            misuse()


def test_the_largest_size_is_refused_by_the_driver(gpu, world):
    for misuse in (
        lambda: vmm.create(gpu, 2**63 - 1),
        lambda: vmm.create(gpu, 2**62),
        lambda: vmm.reserve(gpu, 2**63 - 1),
        lambda: vmm.Segment.create(gpu, 2**62, chunk_size=2**61),
    ):
        with pytest.raises(DriverError):
            misuse()


def test_a_device_that_is_closed(gpus, memlake_emulator):
    (gone,) = memlake_emulator.emulate(memory="64MiB")
    gone.close()
    segment = vmm.Segment.create(gpus[0], GRANULE)
    before = picture(gpus)
    for misuse in (
        lambda: vmm.create(gone, GRANULE),
        lambda: vmm.reserve(gone, GRANULE),
        lambda: segment.set_access(gone, "rw"),
        gone.create_stream,
        gone.create_event,
        gone.synchronize,
    ):
        with pytest.raises(ClosedError):
            misuse()
    assert picture(gpus) == before


def test_a_device_that_does_not_exist():
    from memlake import _native

    driver = _native.Driver.load(memlake.emulator_library())
    for ordinal in (-1, 10**6):
        with pytest.raises(DriverError) as caught:
            driver.device(ordinal)
        assert caught.value.code == INVALID_DEVICE


def test_a_stream_that_was_destroyed_by_somebody_else(gpu, memlake_emulator):
    segment = vmm.Segment.create(gpu, GRANULE)
    stream = gpu.create_stream()
    handle = stream.handle
    stream.close()
    with pytest.raises(DriverError) as caught:
        segment.fill(1, stream=handle)
    assert isinstance(caught.value, ContractViolation)
    assert caught.value.code == 400
    memlake_emulator.take_violations()


def test_a_library_that_is_no_driver_says_what_was_tried(tmp_path):
    broken = tmp_path / "libcuda.so.1"
    broken.write_text("not a library")
    for library in (broken, tmp_path / "missing.so", tmp_path):
        with pytest.raises(ConfigError) as caught:
            memlake.devices(library)
        assert str(library) in str(caught.value)


def test_a_broken_environment_is_told_and_not_crashed_on():
    program = "import memlake; memlake.emulate()"
    environment = os.environ | {"MEMLAKE_EMULATOR": "devices=banana"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "banana" in done.stderr
    assert "ConfigError" in done.stderr
