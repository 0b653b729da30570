import os
from pathlib import Path

import pytest

from memlake import ClosedError, ConfigError, DriverError, InvalidFree, driver, vmm
from memlake.vmm.chunk import chunk_sizes

GRANULE = 2 * 2**20


def test_a_chunk_has_a_size_a_device_and_no_user(gpu):
    chunk = vmm.create(gpu, "4MiB")
    assert chunk.nbytes == 2 * GRANULE
    assert chunk.device is gpu
    assert chunk.handle
    assert chunk.is_open
    assert chunk.is_free
    assert chunk.user is None
    assert chunk.home is None
    assert repr(chunk) == f"Chunk(4 MiB on device {gpu.ordinal}, free)"


def test_memory_goes_back_when_a_chunk_is_closed_or_dropped(gpu):
    with vmm.create(gpu, GRANULE), driver.counting(gpu) as counts:
        dropped = vmm.create(gpu, GRANULE)
        del dropped
        assert counts["cuMemRelease"] == 1
    assert gpu.free_memory == gpu.total_memory


def test_memory_of_a_closed_chunk_stays_while_it_is_mapped(gpu):
    addresses = vmm.reserve(gpu, GRANULE)
    chunk = vmm.create(gpu, GRANULE)
    mapping = addresses.map(chunk, access=gpu)
    chunk.close()
    mapping.fill(3)
    assert gpu.free_memory == gpu.total_memory - GRANULE
    mapping.close()
    assert gpu.free_memory == gpu.total_memory


def test_a_device_that_is_full_says_out_of_memory(gpu):
    with vmm.create(gpu, gpu.total_memory - GRANULE):
        with pytest.raises(DriverError) as caught:
            vmm.create(gpu, 2 * GRANULE)
        assert caught.value.is_out_of_memory
        assert caught.value.call == "cuMemCreate"
        assert gpu.free_memory == GRANULE


def test_a_closed_chunk_cannot_be_used(gpu):
    with vmm.create(gpu, GRANULE) as chunk:
        chunk.close()
    for use in (
        lambda: chunk.handle,
        chunk.export,
        lambda: vmm.stitch([chunk]),
        lambda: vmm.reserve(gpu, GRANULE).map(chunk),
    ):
        with pytest.raises(ClosedError, match="is closed"):
            use()
    with pytest.raises(InvalidFree, match="closed before"):
        chunk.close()


def test_a_chunk_shared_through_a_descriptor_is_the_same_memory(gpu):
    chunk = vmm.create(gpu, GRANULE, exportable=True)
    descriptor = chunk.export()
    try:
        same = vmm.import_chunk(gpu, descriptor, chunk.nbytes)
    finally:
        os.close(descriptor)
    here, there = vmm.stitch([chunk]), vmm.stitch([same])
    here.fill(42)
    assert (there.numpy() == 42).all()
    for thing in (here, there, chunk, same):
        thing.close()
    assert gpu.free_memory == gpu.total_memory


def test_each_export_is_a_descriptor_of_its_own(gpu):
    chunk = vmm.create(gpu, GRANULE, exportable=True)
    first, second = chunk.export(), chunk.export()
    assert first != second
    os.close(first)
    vmm.import_chunk(gpu, second, GRANULE).close()
    os.close(second)


def test_only_exportable_chunks_can_be_exported(gpu):
    with pytest.raises(DriverError) as caught:
        vmm.create(gpu, GRANULE).export()
    assert caught.value.code == 1


def test_what_was_not_exported_cannot_be_imported(gpu):
    with Path(os.devnull).open() as foreign, pytest.raises(DriverError):
        vmm.import_chunk(gpu, foreign.fileno(), GRANULE)
    with pytest.raises(DriverError):
        vmm.import_chunk(gpu, -1, GRANULE)
    for descriptor in ("3", True, None, 2.0):
        with pytest.raises(ConfigError, match="file descriptor"):
            vmm.import_chunk(gpu, descriptor, GRANULE)


def test_a_chunk_of_a_segment_is_closed_with_it(gpu):
    segment = vmm.Segment.create(gpu, GRANULE)
    with pytest.raises(InvalidFree, match=r"belongs to Segment\("):
        segment.chunks[0].close()
    (chunk,) = segment.chunks
    segment.close()
    assert not chunk.is_open


def test_a_chunk_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="create"):
        vmm.Chunk()


def test_sizes_of_chunks_are_equal_and_the_last_takes_the_rest(gpu):
    assert list(chunk_sizes(gpu, "5MiB", None)) == [2 * 2**20, 2 * 2**20, 2**20]
    assert list(chunk_sizes(gpu, "8MiB", "4MiB")) == [4 * 2**20] * 2
    assert list(chunk_sizes(gpu, "6MiB", ["2MiB", 4 * 2**20])) == [2 * 2**20, 4 * 2**20]
    assert list(chunk_sizes(gpu, 0, None)) == []


def test_sizes_of_chunks_must_make_sense(gpu):
    with pytest.raises(ConfigError, match="must not be 0"):
        list(chunk_sizes(gpu, "4MiB", 0))
    with pytest.raises(ConfigError, match="add up to 6 MiB, not to 4 MiB"):
        list(chunk_sizes(gpu, "4MiB", ["2MiB", "4MiB"]))
