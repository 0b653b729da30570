"""Buffers for registrations: one handle, its properties, and pins that refuse what was not granted."""

import logging

import pytest

import memlake

MIB = 2**20
GRANULE = 2 * MIB


@pytest.fixture
def gpu(memlake_emulator):
    return memlake_emulator.emulate(memory="64MiB", hardware="usual")[0]


def scattered(pool):
    """Leaves 32 MiB of a pool of 64 MiB free, in pieces of 4 MiB."""
    buffers = [pool.allocate("4MiB") for _ in range(16)]
    for buffer in buffers[::2]:
        buffer.close()
    return buffers[1::2]


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "direct"])
def test_a_single_handle_buffer_is_one_handle_under_every_policy(gpu, policy):
    with memlake.Pool(gpu, policy) as pool, pool.allocate("5MiB", single_handle=True) as buffer:
        (handle,) = buffer.handles
        assert (handle.offset, handle.nbytes, handle.start) == (0, 5 * MIB, 0)
        assert handle.export_types == ("posix_fd",)
        assert handle.is_rdma_capable
        chunk = next(chunk for chunk in gpu.ledger().chunks if chunk.handle == handle.handle)
        assert chunk.size == 6 * MIB
        buffer.fill(0x5A)
        assert (buffer.numpy() == 0x5A).all()
        pool.check()


def test_it_is_one_handle_also_when_all_free_memory_is_scattered(gpu):
    with memlake.Pool(gpu) as pool:
        kept = scattered(pool)
        with pool.allocate("20MiB") as stitched:
            assert len(stitched.handles) > 1
            stitched.close()
            pool.trim()
            with pool.allocate("20MiB", single_handle=True) as buffer:
                assert len(buffer.handles) == 1
        for buffer in kept:
            buffer.close()
        pool.check()


def test_it_does_not_move_while_others_are_gathered(gpu):
    with memlake.Pool(gpu) as pool:
        single = pool.allocate("8MiB", single_handle=True)
        before = (single.ptr, single.generation, single.handles)
        single.fill(0x33)
        kept = [pool.allocate("4MiB") for _ in range(14)]
        for buffer in kept[::2]:
            buffer.close()
        gathered = pool.allocate("24MiB")
        gathered.fill(0x44)
        assert (single.ptr, single.generation, single.handles) == before
        assert (single.numpy() == 0x33).all()
        for buffer in (*kept[1::2], gathered, single):
            buffer.close()
        pool.check()


def test_its_memory_is_used_again_for_the_same_size_and_released_for_others(gpu):
    with memlake.Pool(gpu) as pool:
        first = pool.allocate("40MiB", single_handle=True)
        handle = first.handles[0].handle
        first.close()
        second = pool.allocate("40MiB", single_handle=True)
        assert second.handles[0].handle == handle
        second.close()
        with pool.allocate("50MiB", single_handle=True) as larger:
            assert len(larger.handles) == 1
        pool.check()


def test_a_single_handle_is_of_one_device_even_if_no_device_has_room(memlake_emulator):
    gpus = memlake_emulator.emulate(devices=2, memory="64MiB", hardware="usual")
    with memlake.Pool(gpus) as pool:
        with pool.allocate("100MiB") as over_both:
            assert len(over_both.pieces) == 2
        pool.trim()
        with pytest.raises(memlake.OutOfMemory, match="one chunk of one device"):
            pool.allocate("100MiB", single_handle=True)
        with pool.allocate("60MiB", single_handle=True) as one, pool.allocate("60MiB", single_handle=True) as other:
            assert {one.pieces[0].device, other.pieces[0].device} == set(gpus)
        pool.check()


def test_the_handles_of_a_buffer_tile_it_and_say_where_they_begin(gpu):
    with memlake.Pool(gpu) as pool:
        kept = scattered(pool)
        with pool.allocate("20MiB") as buffer:
            at = 0
            for handle in buffer.handles:
                assert handle.offset == at
                at += handle.nbytes
            assert at == buffer.nbytes
        for buffer in kept:
            buffer.close()
    with memlake.Pool(gpu) as pool, pool.allocate("6MiB") as below, pool.allocate("4MiB") as above:
        for buffer in (below, above):
            handle = buffer.handles[0]
            mapping = next(m for m in gpu.ledger().mappings if m.address <= buffer.ptr < m.address + m.size)
            assert (mapping.handle, buffer.ptr - mapping.address) == (handle.handle, handle.start)


def test_plain_allocations_and_empty_buffers_have_no_handles(gpu):
    with memlake.Pool(gpu, "caching") as pool, pool.allocate("5MiB") as buffer, pool.allocate(0) as empty:
        assert buffer.handles == empty.handles == ()
        assert buffer.pieces[0].is_rdma_capable
        buffer.pin(registration=True)
        buffer.unpin()


def test_a_pin_of_several_handles_is_said(gpu, caplog):
    with memlake.Pool(gpu) as pool, caplog.at_level(logging.WARNING, "memlake.pool"):
        kept = scattered(pool)
        with pool.allocate("20MiB") as buffer:
            buffer.pin()
            assert "single_handle=True" in caplog.text
            buffer.unpin()
        for buffer in kept:
            buffer.close()
        pool.trim()
        caplog.clear()
        with pool.allocate("20MiB", single_handle=True) as buffer:
            buffer.pin()
            assert not caplog.records
            buffer.unpin()


@pytest.mark.parametrize(
    ("lack", "reason"),
    [("rdma", "attribute 110"), ("rdma_grant", "did not grant it"), ("rdma_access", "answered 999")],
)
def test_a_pin_for_a_registration_refuses_what_was_not_granted(memlake_emulator, lack, reason):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual", lacks=[lack])
    with memlake.Pool(gpu) as pool, pool.allocate("4MiB") as buffer:
        assert not pool.rdma
        assert not buffer.pieces[0].is_rdma_capable
        with pytest.raises(memlake.ConfigError, match=reason):
            buffer.pin(registration=True)
        assert not buffer.is_pinned
        buffer.pin()
        buffer.unpin()
        buffer.fill(1)


def test_a_pin_for_a_registration_works_where_it_was_granted(gpu):
    with memlake.Pool(gpu) as pool, pool.allocate("4MiB") as buffer:
        assert pool.rdma
        assert buffer.pieces[0].is_rdma_capable
        buffer.pin(registration=True)
        assert buffer.is_pinned
        buffer.unpin()


def test_spilled_memory_cannot_be_registered(gpu):
    with (
        memlake.Pool(gpu, spill="host") as pool,
        pool.allocate("80MiB") as buffer,
        pytest.raises(memlake.ConfigError, match="memory of the host"),
    ):
        buffer.pin(registration=True)


def test_a_single_handle_buffer_can_be_exported_if_the_device_can(gpu, memlake_emulator):
    with memlake.Pool(gpu) as pool, pool.allocate("4MiB", single_handle=True) as buffer:
        assert buffer.is_shareable
        buffer.export()
    (other,) = memlake_emulator.emulate(memory="64MiB", hardware="usual", lacks=["export"])
    with memlake.Pool(other) as pool, pool.allocate("4MiB", single_handle=True) as buffer:
        assert buffer.handles[0].export_types == ()
        with pytest.raises(memlake.ConfigError):
            buffer.export()
        with pytest.raises(memlake.ConfigError, match="leave shareable and handle_type out"):
            pool.allocate("4MiB", single_handle=True, shareable=True)


def test_a_pool_that_has_no_handles_says_so(gpu, memlake_emulator):
    with memlake.Pool(gpu, "driver") as pool, pytest.raises(memlake.ConfigError, match="single handle"):
        pool.allocate("4MiB", single_handle=True)
    with memlake.Pool(gpu, location="host") as pool, pytest.raises(memlake.ConfigError, match="location='host'"):
        pool.allocate("4MiB", single_handle=True)
    (plain,) = memlake_emulator.emulate(memory="64MiB", hardware="usual", lacks=["vmm"])
    with memlake.Pool(plain, "caching") as pool, pytest.raises(memlake.ConfigError, match="virtual memory management"):
        pool.allocate("4MiB", single_handle=True)


def test_a_failed_call_leaves_nothing_behind(gpu):
    for call in ("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"):
        # A code that no feature explains, so that the request is not tried again.
        with memlake.Pool(gpu) as pool:
            with memlake.driver.failing(gpu, call=call, code=100), pytest.raises(memlake.DriverError):
                pool.allocate("4MiB", single_handle=True)
            assert pool.stats().held == 0
            pool.check()
    assert gpu.free_memory == gpu.total_memory
