import numpy as np
import pytest

import memlake
from memlake import ConfigError, ContractViolation, DriverError, emulator, vmm


@pytest.fixture
def segment(gpu):
    return vmm.Segment.create(gpu, "4MiB")


def test_fill_sets_every_byte(segment):
    segment.fill(255)
    assert (segment.numpy() == 255).all()


def test_fill_sets_a_part(segment):
    segment.fill(1, offset=10, nbytes=5)
    segment.fill(2, offset="3MiB")
    assert segment.numpy()[9:16].tolist() == [0, 1, 1, 1, 1, 1, 0]
    assert (segment.numpy()[3 * 2**20 :] == 2).all()
    segment.fill(3, nbytes=0)
    assert segment.numpy()[0] == 0


@pytest.mark.parametrize("value", [-1, 256, 1.0, "1", True, None])
def test_a_byte_is_from_0_to_255(segment, value):
    with pytest.raises(ConfigError, match="0 to 255"):
        segment.fill(value)


def test_host_memory_is_copied_in_and_out(segment):
    numbers = np.arange(1000, dtype=np.float32)
    segment.copy_from(numbers, offset="1MiB")
    result = np.empty_like(numbers)
    segment.copy_to(result, offset="1MiB")
    assert (result == numbers).all()


def test_device_memory_is_copied_between_devices(gpus):
    here, there = (vmm.Segment.create(gpu, "2MiB", access=gpus) for gpu in gpus)
    here.copy_from(bytes(range(256)))
    there.copy_from(here)
    assert there.numpy()[:256].tolist() == list(range(256))
    there.fill(5)
    there.copy_to(here)
    assert (here.numpy() == 5).all()


def test_copies_cross_the_borders_of_chunks(segment):
    assert len(segment.chunks) == 2
    segment.copy_from(b"stitched", offset=2 * 2**20 - 4)
    result = bytearray(8)
    segment.copy_to(result, offset=2 * 2**20 - 4)
    assert result == b"stitched"


@pytest.mark.parametrize(("offset", "nbytes"), [(0, 4 * 2**20 + 1), (4 * 2**20, 1), (5 * 2**20, None), (2**62, 2**62)])
def test_what_does_not_fit_is_refused(segment, offset, nbytes):
    with pytest.raises(ConfigError, match="do not fit"):
        segment.fill(1, offset=offset, nbytes=nbytes)


def test_what_is_larger_than_the_memory_is_refused(segment):
    with pytest.raises(ConfigError, match="do not fit"):
        segment.copy_from(bytes(5 * 2**20))
    with pytest.raises(ConfigError, match="do not fit"):
        segment.copy_to(bytearray(5 * 2**20))


def test_work_on_a_stream_does_not_wait(gpu, segment):
    stream = gpu.create_stream()
    with emulator.hold(stream):
        segment.fill(1, stream=stream)
        assert emulator.pending(stream) > 0
    stream.sync()
    assert (segment.numpy() == 1).all()


def test_a_stream_of_another_device_can_do_the_work(gpus):
    segment = vmm.Segment.create(gpus[0], "2MiB", access=gpus)
    stream = gpus[1].create_stream()
    segment.fill(4, stream=stream)
    stream.sync()
    assert (segment.numpy() == 4).all()


def test_a_device_without_access_cannot_do_the_work(gpus):
    segment = vmm.Segment.create(gpus[0], "2MiB")
    with pytest.raises(DriverError) as caught:
        segment.fill(4, stream=gpus[1].create_stream())
    assert caught.value.code == 1


def test_memory_in_use_cannot_be_closed(gpu, segment, memlake_emulator):
    stream = gpu.create_stream()
    with emulator.hold(stream):
        segment.fill(1, stream=stream)
        with pytest.raises(ContractViolation, match="cuMemUnmap"):
            segment.close()
        assert not segment.is_released
    stream.sync()
    segment.close()
    assert len(memlake_emulator.take_violations()) == 1


def test_numpy_shows_the_memory_itself(segment):
    numbers = segment.numpy("int32")
    assert numbers.shape == (2**20,)
    numbers[-1] = 123456
    result = np.empty(1, np.int32)
    segment.copy_to(result, offset=segment.nbytes - 4)
    assert result[0] == 123456
    assert numbers.ctypes.data == segment.address


def test_numpy_takes_structured_types(segment):
    rows = segment.numpy([("key", "u4"), ("value", "f4")])
    rows["value"][7] = 1.5
    assert segment.numpy("f4")[15] == 1.5


@pytest.mark.parametrize("dtype", ["S3", object, "V0"])
def test_numpy_refuses_types_that_do_not_fit(segment, dtype):
    with pytest.raises(ConfigError, match="cannot be seen as"):
        segment.numpy(dtype)


def test_numpy_needs_memory_the_cpu_can_touch():
    with memlake.emulate(memory="64MiB", backing="none") as (gpu,):
        segment = vmm.Segment.create(gpu, "2MiB")
        with pytest.raises(ConfigError, match=r"copy_to\(array\)"):
            segment.numpy()


def test_numpy_needs_access(gpu):
    with vmm.Segment.create(gpu, "4MiB", access=()) as segment:
        with pytest.raises(ConfigError, match="no device has access"):
            segment.numpy()
        segment.set_access(gpu, "rw")
        segment.numpy()[:] = 1


def test_numpy_is_read_only_where_access_is(segment, gpu):
    segment.set_access(gpu, "r")
    view = segment.numpy()
    assert view.sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_access_is_not_lowered_under_a_live_view(segment, gpu):
    view = segment.numpy()
    for rights in ("r", "none"):
        with pytest.raises(BufferError, match="cannot lower access"):
            segment.set_access(gpu, rights)
    view[:] = 1
    del view
    segment.set_access(gpu, "none")
    assert segment.access(gpu) == "none"


def test_a_view_keeps_its_memory_when_its_owner_is_dropped(gpu):
    view = vmm.Segment.create(gpu, "2MiB").numpy()[100:]
    assert gpu.free_memory == gpu.total_memory - 2 * 2**20
    view[:] = 7
    assert view.sum() == 7 * len(view)
    del view
    assert gpu.free_memory == gpu.total_memory
