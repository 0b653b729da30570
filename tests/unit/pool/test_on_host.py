"""Pools with memory on the host: what the devices have no room for, or all of it."""

import numpy as np
import pytest

import memlake
from memlake import OutOfMemory

MIB = 2**20


def mib_by_place(buffer):
    return [(piece.device, piece.offset // MIB, piece.nbytes // MIB) for piece in buffer.pieces]


def test_what_the_device_has_no_room_for_lies_on_the_host(gpu):
    pattern = np.arange(100 * MIB // 4, dtype=np.uint32)
    with memlake.Pool(gpu, spill="host") as pool, pool.allocate("100MiB") as buffer:
        assert mib_by_place(buffer) == [(gpu, 0, 64), (None, 64, 36)]
        buffer.copy_from(pattern)
        back = np.empty_like(pattern)
        buffer.copy_to(back)
        assert (back == pattern).all()
        assert (buffer.numpy(np.uint32) == pattern).all()
        pool.check()


def test_it_is_counted_apart(gpu):
    with memlake.Pool(gpu, spill="host") as pool:
        with pool.allocate("100MiB"):
            stats = pool.stats()
            assert (stats.held, stats.held_on_host) == (64 * MIB, 36 * MIB)
            assert stats.live + stats.pending + stats.free == stats.held + stats.held_on_host
            segments = pool.snapshot().segments
            assert sum(segment.held_on_host for segment in segments) == 36 * MIB
            assert sum(segment.held for segment in segments) == 100 * MIB
            assert memlake.emulator.ledger().held(gpu) == 64 * MIB
        stats = pool.stats()
        assert stats.free == 100 * MIB
        assert pool.trim(keep="64MiB") == 36 * MIB
        stats = pool.stats()
        assert (stats.held, stats.held_on_host, stats.held_on_host_peak) == (64 * MIB, 0, 36 * MIB)
        pool.reset_peaks()
        assert pool.stats().held_on_host_peak == 0


def test_a_limit_counts_the_device_alone(gpu):
    with memlake.Pool(gpu, spill="host", limit="32MiB") as pool, pool.allocate("40MiB") as buffer:
        assert mib_by_place(buffer) == [(gpu, 0, 32), (None, 32, 8)]


def test_memory_of_the_device_is_preferred(gpu):
    with memlake.Pool(gpu, spill="host") as pool:
        first, second = pool.allocate("60MiB"), pool.allocate("20MiB")
        assert mib_by_place(second)[-1][0] is None
        second.close()
        first.close()
        with pool.allocate("30MiB") as again:
            assert [place for place, _, _ in mib_by_place(again)] == [gpu]


def test_it_is_off_by_default(gpu):
    with memlake.Pool(gpu) as pool, pytest.raises(OutOfMemory):
        pool.allocate("100MiB")


def test_several_devices_spill_when_all_are_full(gpus):
    a, b = gpus
    with memlake.Pool([a, b], spill="host") as pool, pool.allocate("150MiB") as buffer:
        assert [place for place, _, _ in mib_by_place(buffer)] == [a, b, None]
        buffer.fill(3, stream=b.default_stream)
        b.default_stream.sync()
        assert (buffer.numpy() == 3).all()


def test_a_request_that_neither_has_memory_for_is_refused_with_both_in_the_text(gpu):
    with memlake.Pool(gpu, spill="host") as pool, pool.allocate("100MiB"):
        with pytest.raises(OutOfMemory) as caught:
            pool.allocate("100TiB")
        text = str(caught.value)
        assert "and 36 MiB on the host" in text
        assert "memory of the host (the driver has no memory)" in text
        assert "neither the devices nor the host" in text
        pool.check()


@pytest.mark.parametrize("location", ["host", "host_numa"])
@pytest.mark.parametrize("backing", ["host", "none"])
def test_a_pool_on_the_host_serves_the_device_and_the_cpu(memlake_emulator, location, backing):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", backing=backing)
    # The limit keeps the range of addresses small: without it a pool reserves several times the memory of the host.
    with memlake.Pool(gpu, location=location, limit="1GiB") as pool:
        assert pool.location == location
        with pool.allocate("100MiB") as buffer:
            assert mib_by_place(buffer) == [(None, 0, 100)]
            buffer.fill(5)
            view = buffer.numpy()
            assert (view == 5).all()
            view[:] = 6
            back = np.empty(100 * MIB, np.uint8)
            buffer.copy_to(back)
            assert (back == 6).all()
            del view
            assert memlake.emulator.ledger().held(gpu) == 0
            assert pool.stats().held >= 100 * MIB
            pool.check()


def test_a_view_of_memory_on_the_host_keeps_the_devices_of_its_pool(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", backing="none")
    pool = memlake.Pool(gpu, location="host")
    buffer = pool.allocate("1MiB")
    view = buffer.numpy()
    with pytest.raises(BufferError):
        gpu.close()
    with pytest.raises(BufferError):
        buffer.close()
    del view
    buffer.close()
    pool.close()


def test_the_limit_of_a_pool_on_the_host_is_of_the_machine(gpu):
    with memlake.Pool(gpu, location="host", limit="50%") as pool:
        assert pool.limit > gpu.total_memory
    with memlake.Pool(gpu, location="host", limit="32MiB") as pool:
        with pytest.raises(OutOfMemory, match="The host has") as caught:
            pool.allocate("40MiB")
        assert caught.value.reason == "limit"
