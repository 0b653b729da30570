"""Buffers as arrays of other libraries, and arrays of other libraries in copies."""

import contextlib
import gc
import threading

import numpy as np
import pytest

import memlake
from memlake import ClosedError, ConfigError, _native
from memlake.emulator import hold, launch

MIB = 2**20


class ForeignArray:
    """An array of another library, which speaks the CUDA array interface."""

    def __init__(self, buffer, **changes):
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (buffer.nbytes,),
            "typestr": "|u1",
            "data": (buffer.ptr, False),
            "stream": None,
        } | changes


class OldTensor:
    """A tensor of a library from before DLPack 1.0."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.streams = []

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.buffer.__dlpack__(stream=stream)


def test_numpy_sees_the_memory_itself(pool):
    buffer = pool.allocate(1000)
    array = np.asarray(buffer)
    assert (array.dtype, array.shape) == (np.uint8, (1000,))
    array[:] = 7
    assert bytes(buffer.numpy()) == bytes([7]) * 1000
    assert memoryview(buffer).nbytes == 1000
    assert np.frombuffer(buffer, np.int16)[0] == 0x0707


def test_a_buffer_cannot_be_closed_under_a_view_of_any_kind(pool):
    buffer = pool.allocate(1000)
    for view_of in (np.asarray, memoryview, lambda b: np.from_dlpack(b, device="cpu"), lambda b: b.__dlpack__()):
        view = view_of(buffer)
        with pytest.raises(BufferError, match="cannot close"):
            buffer.close()
        del view
    buffer.close()


def test_memory_that_the_cpu_cannot_access_is_no_numpy_array(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", backing="none")
    buffer = memlake.Pool(gpu).allocate(1000)
    with pytest.raises(ConfigError, match="the CPU cannot touch"):
        np.asarray(buffer)
    with pytest.raises(BufferError, match="the CPU cannot touch"):
        memoryview(buffer)
    assert not hasattr(buffer, "__array_interface__")
    with pytest.raises(ConfigError, match="the CPU cannot touch"):
        buffer.__dlpack__(dl_device=(1, 0))


def test_numpy_converts_only_by_a_copy(pool):
    buffer = pool.allocate(8)
    buffer.fill(1)
    assert np.asarray(buffer, dtype=np.float32).tolist() == [1.0] * 8
    copied = np.array(buffer)
    buffer.fill(2)
    assert copied.tolist() == [1] * 8
    with pytest.raises(ConfigError, match="only by a copy"):
        buffer.__array__(np.float32, copy=False)


@pytest.mark.needs("virtual_memory")
def test_a_mapping_becomes_a_numpy_array_too(gpu):
    with memlake.vmm.Segment.create(gpu, "2MiB") as segment:
        segment.fill(5)
        array = np.asarray(segment)
        assert (array.dtype, array[-1]) == (np.uint8, 5)
        del array


@pytest.mark.parametrize(
    ("max_version", "name"), [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned")]
)
def test_dlpack_has_the_version_that_the_consumer_knows(pool, gpu, max_version, name):
    capsule = pool.allocate(1000).__dlpack__(max_version=max_version)
    assert f'"{name}"' in repr(capsule)
    tensor = _native.TakenTensor(capsule)
    assert (tensor.nbytes, tensor.device, tensor.is_read_only) == (1000, (2, gpu.ordinal), False)
    with pytest.raises(TypeError, match="no other consumer"):
        _native.TakenTensor(capsule)


def test_a_tensor_keeps_the_buffer_alive(pool):
    buffer = pool.allocate(1000)
    tensor = _native.TakenTensor(buffer.__dlpack__())
    address = buffer.ptr
    del buffer
    gc.collect()
    assert tensor.address == address
    assert pool.stats().num_live == 1
    del tensor
    assert pool.stats().num_live == 0


def test_a_capsule_that_no_consumer_took_frees_the_buffer(pool):
    capsule = pool.allocate(1000).__dlpack__(max_version=(1, 0))
    assert pool.stats().num_live == 1
    del capsule
    assert pool.stats().num_live == 0


def test_the_consumers_stream_waits_for_the_buffers_stream(pool, gpu):
    own, other = gpu.create_stream(), gpu.create_stream()
    buffer = pool.allocate(MIB, stream=own)
    gate = hold(own)
    launch(own, "write", writes=[buffer])
    tensor = _native.TakenTensor(buffer.__dlpack__(stream=other.handle))
    launch(other, "read", reads=[buffer])
    assert not other.is_done
    gate.open()
    other.sync()
    del tensor
    buffer.close()  # before the consumer's stream goes, as for record_stream


def test_memory_is_not_reused_before_the_consumers_stream_has_passed(gpu):
    pool = memlake.Pool(gpu)  # a policy whose free does not wait for the held stream
    own, other = gpu.create_stream(), gpu.create_stream()
    buffer = pool.allocate(MIB, stream=own)
    tensor = _native.TakenTensor(buffer.__dlpack__(stream=other.handle))
    with hold(other):
        launch(other, "read", reads=[buffer])
        address = buffer.ptr
        del tensor, buffer
        assert pool.allocate(MIB, stream=own).ptr != address


def test_no_order_is_made_where_none_is_wanted(pool, gpu):
    own = gpu.create_stream()
    buffer = pool.allocate(MIB, stream=own)
    with hold(own):
        buffer.__dlpack__(stream=-1)
        assert gpu.default_stream.is_done


@pytest.mark.parametrize("stream", [0, -2, "legacy", 1.5])
def test_a_stream_that_dlpack_does_not_know_is_refused(pool, stream):
    with pytest.raises(ConfigError, match="DLPack names streams"):
        pool.allocate(1000).__dlpack__(stream=stream)


def test_copies_and_other_devices_are_refused(pool):
    buffer = pool.allocate(1000)
    with pytest.raises(BufferError, match="no copy"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="does not copy it to"):
        buffer.__dlpack__(dl_device=(2, 5))
    buffer.close()
    for use in (buffer.__dlpack__, buffer.__dlpack_device__, lambda: buffer.__cuda_array_interface__):
        with pytest.raises(ClosedError):
            use()


def test_an_empty_buffer_has_the_device_of_its_pool_for_dlpack(gpu):
    assert memlake.Pool(gpu).allocate(0).__dlpack_device__() == (2, gpu.ordinal)
    for location in ("host", "host_numa"):
        buffer = memlake.Pool(gpu, location=location).allocate(0)
        assert buffer.__dlpack_device__() == (3, 0)
        assert np.from_dlpack(buffer).shape == (0,)


def test_host_memory_is_page_locked_memory_for_dlpack(gpu):
    buffer = memlake.Pool(gpu, location="host").allocate(1000)
    buffer.fill(9)
    assert buffer.__dlpack_device__() == (3, 0)
    array = np.from_dlpack(buffer)
    assert array.tolist() == [9] * 1000
    with pytest.raises(BufferError, match="cannot close"):
        buffer.close()
    del array


def test_an_empty_buffer_is_an_empty_tensor(pool):
    buffer = pool.allocate(0)
    assert _native.TakenTensor(buffer.__dlpack__()).nbytes == 0
    assert np.asarray(buffer).shape == (0,)
    assert buffer.__cuda_array_interface__["data"] == (0, False)


def test_the_cuda_array_interface_names_memory_and_stream(pool, gpu):
    stream = gpu.create_stream()
    buffer = pool.allocate(1000, stream=stream)
    interface = buffer.__cuda_array_interface__
    assert interface["data"] == (buffer.ptr, False)
    assert (interface["version"], interface["shape"], interface["typestr"]) == (3, (1000,), "|u1")
    assert interface["stream"] == stream.handle
    assert pool.allocate(1).__cuda_array_interface__["stream"] == 1
    stream.close()
    assert buffer.__cuda_array_interface__["stream"] is None  # the host has waited


def test_copies_take_arrays_of_other_libraries(pool):
    source, destination, buffer = (pool.allocate(1000) for _ in range(3))
    source.copy_from(np.arange(1000, dtype=np.uint8))
    buffer.copy_from(ForeignArray(source))
    buffer.copy_to(ForeignArray(destination))
    assert (destination.numpy() == np.arange(1000, dtype=np.uint8)).all()
    buffer.fill(0)
    tensor = OldTensor(source)
    buffer.copy_from(tensor)
    assert tensor.streams == [1]
    assert (buffer.numpy() == np.arange(1000, dtype=np.uint8)).all()


def test_a_copy_waits_for_the_stream_of_the_other_array(pool, gpu):
    own, other = gpu.create_stream(), gpu.create_stream()
    source, buffer = pool.allocate(1000), pool.allocate(1000)
    gate = hold(other)
    launch(other, "write", writes=[source])
    buffer.copy_from(ForeignArray(source, stream=other.handle), stream=own)
    assert not own.is_done
    gate.open()
    own.sync()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 1}, "has version 1"),
        ({"mask": object()}, "has a mask"),
        ({"shape": (10, 10), "strides": (20, 1)}, "do not follow one another"),
        ({"shape": (10, 10), "strides": (10,)}, "malformed"),
        ({"shape": (-1,)}, "address or a size"),
        ({"data": None}, "malformed"),
        ({"data": ("x", False)}, "address or a size"),
        ({"typestr": "nonsense"}, "malformed"),
        ({"stream": 0}, "names the stream 0"),
    ],
)
def test_an_array_that_memlake_cannot_copy_is_refused(pool, changes, sentence):
    source, buffer = pool.allocate(100), pool.allocate(100)
    with pytest.raises(ConfigError, match=sentence):
        buffer.copy_from(ForeignArray(source, **changes))
    with pytest.raises(ConfigError, match="read-only"):
        buffer.copy_to(ForeignArray(source, data=(source.ptr, True)))


def test_strides_of_one_long_dimensions_do_not_matter(pool):
    source, buffer = pool.allocate(100), pool.allocate(100)
    buffer.copy_from(ForeignArray(source, shape=(1, 100, 1), strides=(7, 1, 5)))
    buffer.copy_from(ForeignArray(source, shape=(0, 100), strides=(3, 3)))


def test_torch_gives_and_takes_memory_by_dlpack(pool):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    buffer = pool.allocate(4000)
    buffer.copy_from(torch.arange(1000, dtype=torch.int32))
    received = torch.zeros(1000, dtype=torch.int32)
    buffer.copy_to(received)
    assert torch.equal(received, torch.arange(1000, dtype=torch.int32))
    with pytest.raises(ConfigError, match="do not follow"):
        buffer.copy_from(torch.zeros(10, 10)[:, ::2])
    host = memlake.Pool(pool.devices[0], location="host").allocate(16)
    host.fill(1)
    assert torch.frombuffer(host, dtype=torch.uint8).sum() == 16


PER_THREAD = 2  # CUDA's handle for the default stream of the calling thread


def test_a_consumer_in_another_thread_is_ordered_behind_a_per_thread_default_stream(gpu, pool):
    own = memlake.Stream.from_handle(PER_THREAD, device=gpu)
    buffer = pool.allocate(64, stream=PER_THREAD)
    buffer.fill(0, stream=PER_THREAD)
    own.sync()
    gate = hold(own)
    buffer.fill(9, stream=PER_THREAD)
    seen = np.zeros(64, np.uint8)
    errors = []

    def consume():
        capsule = buffer.__dlpack__(stream=PER_THREAD, max_version=(1, 1))
        buffer.copy_to(seen, stream=PER_THREAD)
        del capsule
        memlake.Stream.from_handle(PER_THREAD, device=gpu).sync()
        if buffer.__cuda_array_interface__["stream"] is not None:
            errors.append("the interface names a stream of this thread")
        with contextlib.suppress(ConfigError):
            errors.append(repr(buffer.stream))

    with memlake.driver.counting(gpu) as counts:
        thread = threading.Thread(target=consume)
        thread.start()
        while "cuCtxSynchronize" not in counts.calls and thread.is_alive():
            pass
        gate.open()
        thread.join()
    assert seen.tolist() == [9] * 64
    assert errors == []
    buffer.close()
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_memory_is_not_reused_before_a_consumer_whose_producer_is_gone(gpu):
    pool = memlake.Pool(gpu)
    producer, consumer = gpu.create_stream(), gpu.create_stream()
    buffer = pool.allocate("4MiB", stream=producer)
    producer.close()
    capsule = buffer.__dlpack__(stream=consumer.handle, max_version=(1, 1))
    place = buffer.ptr
    gate = hold(consumer)
    buffer.fill(1, stream=consumer)
    del capsule
    buffer.close()
    with pool.allocate("4MiB") as other:
        assert other.ptr != place
    gate.open()
    gpu.synchronize()
    pool.check()
