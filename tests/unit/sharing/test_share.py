"""Sharing as one process sees it: exports, opening, closing, and what is refused."""

import os
import pickle
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

import memlake
from helpers.processes import assert_ends_well
from memlake import sharing
from memlake.device import Piece
from memlake.errors import ClosedError, ConfigError, DriverError, InvalidFree

MIB = 2**20


def test_a_share_says_what_it_is(gpu, pool):
    buffer = pool.allocate("100MiB", shareable=True)
    assert buffer.is_shareable
    with buffer.export() as share:
        assert share.nbytes == buffer.nbytes == 100 * MIB
        assert share.address == buffer.ptr
        assert share.chunk_sizes == (64 * MIB, 36 * MIB)
        assert share.device_uuids == (gpu.uuid,)
        assert repr(share) == "Share(100 MiB in 2 chunks)"
    assert not share.is_open
    assert repr(share) == "Share(100 MiB in 2 chunks, closed)"


def test_a_shared_buffer_has_the_same_bytes(gpu, pool):
    buffer = pool.allocate(100 * MIB - 5, shareable=True)
    buffer.fill(1)
    with buffer.export() as share, share.open() as shared:
        assert (shared.nbytes, shared.device, shared.is_read_only) == (buffer.nbytes, gpu, False)
        assert shared.ptr == shared.address != buffer.ptr
        assert shared.pieces == (Piece(gpu, 0, buffer.nbytes),)
        shared.copy_from(np.arange(256, dtype="u1"), offset=64 * MIB - 128)
        assert bytes(buffer.numpy()[64 * MIB - 129 : 64 * MIB + 129]) == bytes([1, *range(256), 1])
        buffer.fill(7)
        there = np.empty(buffer.nbytes, "u1")
        shared.copy_to(there)
        assert (there == 7).all()
        assert repr(shared).endswith(f" at {shared.ptr:#x})")
    assert repr(shared).endswith("closed)")


@pytest.mark.usefixtures("no_new_descriptors")
def test_memory_stays_as_long_as_anybody_has_it(gpu, pool):
    buffer = pool.allocate("100MiB", shareable=True)
    buffer.fill(3)
    share = buffer.export()
    buffer.close()
    gpu.synchronize()
    pool.trim()
    assert pool.stats().held == 0
    assert gpu.total_memory - gpu.free_memory == 100 * MIB
    shared = share.open()
    share.close()
    assert shared.numpy()[-1] == 3
    assert gpu.total_memory - gpu.free_memory == 100 * MIB
    shared.close()
    assert gpu.free_memory == gpu.total_memory


def test_what_was_exported_never_serves_another_request(gpu, pool):
    buffer = pool.allocate("10MiB", shareable=True)
    with buffer.export(), buffer.export() as second:
        buffer.fill(4)
        shared = second.open()
    buffer.close()
    for _ in range(3):
        with pool.allocate("10MiB", shareable=True) as other:
            other.fill(9)
    assert (shared.numpy() == 4).all()
    shared.close()


def test_what_was_not_exported_is_used_again(pool):
    with pool.allocate("100MiB", shareable=True) as buffer:
        place, generation = buffer.ptr, buffer.generation
    before = pool.stats().driver_calls
    with pool.allocate("100MiB", shareable=True) as buffer:
        assert (buffer.ptr, buffer.generation) == (place, generation)
    assert pool.stats().driver_calls == before


def test_only_what_was_allocated_to_be_shared_can_be_exported(pool):
    ordinary = pool.allocate("2MiB")
    assert not ordinary.is_shareable
    with pytest.raises(ConfigError, match="shareable=True"):
        ordinary.export()
    with pytest.raises(ConfigError, match="empty"):
        pool.allocate(0, shareable=True).export()
    buffer = pool.allocate("2MiB", shareable=True)
    buffer.close()
    with pytest.raises(ClosedError):
        buffer.export()
    for wrong in (1, "yes", 0):
        with pytest.raises(ConfigError, match="shareable"):
            pool.allocate(5, shareable=wrong)


def test_memory_of_the_host_cannot_be_shared(gpu):
    pool = memlake.Pool(gpu, location="host")
    with pytest.raises(ConfigError, match="only memory of devices"):
        pool.allocate("2MiB", shareable=True)


def test_peers_reach_what_can_be_shared_too(memlake_emulator):
    first, second = memlake_emulator.emulate(devices=2, memory="64MiB", peers="all")
    pool = memlake.Pool(first)
    stream = second.create_stream()
    early = pool.allocate("2MiB", shareable=True)
    pool.peer_accessible_by = [second]
    late = pool.allocate("4MiB", shareable=True)
    for buffer in (early, late):
        buffer.fill(7, stream=stream)
        stream.sync()
        assert (buffer.numpy() == 7).all()
    pool.check()


@pytest.mark.usefixtures("no_new_descriptors")
def test_a_whole_pool_is_exported_or_nothing(gpu):
    pool = memlake.Pool(gpu, handle_type="posix_fd")
    assert pool.handle_type == "posix_fd"
    buffers = [pool.allocate(n * 2 * MIB) for n in (3, 1, 2)]
    for value, buffer in enumerate(buffers):
        buffer.fill(value)
    shares = pool.export()
    assert [share.address for share in shares] == [buffer.ptr for buffer in buffers]
    for value, share in enumerate(shares):
        with share, share.open() as shared:
            assert (shared.numpy() == value).all()
    private = pool.allocate("2MiB", shareable=False)
    assert not private.is_shareable
    with pytest.raises(ConfigError, match="not allocated to be shared"):
        pool.export()
    private.close()
    for buffer in buffers:
        buffer.close()
    assert pool.export() == ()
    pool.check()
    pool.close()


def test_a_pool_that_shares_everything_obeys_its_limit_and_its_reserve(gpu):
    pool = memlake.Pool(gpu, handle_type="posix_fd", initial_size="512MiB", limit="600MiB")
    calls = pool.stats().driver_calls
    buffers = [pool.allocate("64MiB") for _ in range(8)]
    assert pool.stats().driver_calls == calls
    assert pool.stats().held == 512 * MIB
    with pytest.raises(memlake.OutOfMemory):
        pool.allocate("100MiB")
    for buffer in buffers:
        buffer.close()
    pool.check()
    pool.trim()
    assert pool.stats().held == 0


@pytest.mark.parametrize("policy", ["lake", "stitch", "caching", "expandable", "direct"])
def test_every_policy_has_memory_to_share_in_the_same_budget(gpu, policy):
    pool = memlake.Pool(gpu, policy, limit="256MiB")
    with pool.allocate("100MiB") as ordinary, pool.allocate("100MiB", shareable=True) as shareable:
        assert pool.stats().held >= 200 * MIB
        snapshot = pool.snapshot()
        live = {block.address for segment in snapshot.segments for block in segment.blocks if block.state == "live"}
        assert live == {ordinary.ptr, shareable.ptr}
        with pytest.raises(memlake.OutOfMemory):
            pool.allocate("100MiB", shareable=True)
        pool.check()
    with pool.allocate("200MiB", shareable=True):
        assert pool.stats().held <= 256 * MIB
    with pool.allocate("200MiB"):
        assert pool.stats().held <= 256 * MIB
        pool.check()


def test_a_read_only_buffer_cannot_be_written(gpu, pool):
    buffer = pool.allocate("2MiB", shareable=True)
    buffer.fill(5)
    with buffer.export() as share, share.open(read_only=True) as shared:
        assert shared.is_read_only
        assert "read-only" in repr(shared)
        view = shared.numpy()
        assert view[0] == 5
        assert not view.flags.writeable
        del view
        for write in (lambda: shared.fill(1), lambda: shared.copy_from(b"x")):
            with pytest.raises(ConfigError, match="read-only"):
                write()
        other = pool.allocate("2MiB")
        with pytest.raises(DriverError):
            other.copy_to(shared)  # the driver refuses, too
        assert (buffer.numpy() == 5).all()


def test_a_buffer_is_not_closed_under_a_view(pool, gpu):
    buffer = pool.allocate("2MiB", shareable=True)
    with buffer.export() as share:
        shared = share.open()
    view = shared.numpy()[5:]
    with pytest.raises(BufferError, match="a NumPy view"):
        shared.close()
    with pytest.raises(BufferError):
        gpu.close()
    del view
    shared.close()
    with pytest.raises(InvalidFree, match="before"):
        shared.close()
    for use in (lambda: shared.ptr, lambda: shared.fill(1), shared.numpy, shared.__enter__):
        with pytest.raises(ClosedError):
            use()


def test_closing_waits_for_the_work_on_it(gpu, pool):
    buffer = pool.allocate("64MiB", shareable=True)
    stream = gpu.create_stream()
    with buffer.export() as share:
        shared = share.open()
    shared.fill(8, stream=stream)
    shared.close()  # unmapping under work would be a violation, which fails the test
    assert (buffer.numpy() == 8).all()


def test_an_exported_buffer_waits_for_its_streams(gpu, pool):
    stream = gpu.create_stream()
    buffer = pool.allocate("2MiB", stream=stream, shareable=True)
    buffer.export().close()
    with memlake.emulator.hold(stream):
        buffer.fill(1, stream=stream)
        buffer.close()
        pool.trim()
        assert (pool.stats().num_pending, pool.stats().held) == (1, 2 * MIB)
        pool.check()
    stream.sync()
    pool.trim()
    assert (pool.stats().num_pending, pool.stats().held) == (0, 0)


@pytest.mark.usefixtures("no_new_descriptors")
def test_a_closed_share_refuses_and_a_dropped_one_is_closed(pool, ends):
    buffer = pool.allocate("200MiB", shareable=True)
    share = buffer.export()
    share.close()
    for use in (share.open, lambda: share.send(ends[0]), share.__enter__):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(InvalidFree):
        share.close()
    dropped = buffer.export()
    del dropped


@pytest.mark.usefixtures("no_new_descriptors")
def test_a_descriptor_that_was_closed_or_replaced_is_a_clear_error(pool, gpu):
    buffer = pool.allocate("128MiB", shareable=True)
    before = memlake.emulator.ledger()
    for replace in (False, True):
        share = buffer.export()
        victim = share._descriptors[1]
        os.close(victim)
        if replace:
            other = os.open("/dev/null", os.O_RDWR)
            os.dup2(other, victim)
            if other != victim:
                os.close(other)
        with pytest.raises(ConfigError, match="descriptor of chunk 1 of 2 cannot be opened"):
            share.open()
        share.close()
    after = memlake.emulator.ledger()
    assert (len(after.chunks), len(after.mappings)) == (len(before.chunks), len(before.mappings))


def test_who_uses_the_memory_may_be_named(memlake_emulator):
    first, second = memlake_emulator.emulate(devices=2, memory="256MiB", peers="all")
    (stranger,) = memlake_emulator.emulate(memory="256MiB")
    pool = memlake.Pool([first, second], placement="balance")
    buffer = pool.allocate("320MiB", shareable=True)  # more than one device has
    buffer.fill(6)
    assert [piece.device for piece in buffer.pieces] == [first, second]
    with buffer.export() as share:
        for device in (None, first, second, [first, second]):
            with share.open(device) as shared:
                assert shared.pieces == buffer.pieces
                assert shared.numpy()[-1] == 6
        with pytest.raises(DriverError, match="PEER_ACCESS_UNSUPPORTED"):
            share.open(stranger)
        for wrong in ([], "gpu", 5, ["gpu"]):
            with pytest.raises(ConfigError):
                share.open(wrong)


def test_nothing_is_left_when_the_driver_fails_half_way(gpu, pool):
    buffer = pool.allocate("192MiB", shareable=True)
    with buffer.export() as share:
        before = memlake.emulator.ledger()
        for nth in range(1, 12):
            with memlake.driver.failing(gpu, nth=nth), suppress(DriverError):
                share.open().close()
            after = memlake.emulator.ledger()
            assert len(after.reservations) == len(before.reservations)
            assert len(after.mappings) == len(before.mappings)


def test_neither_a_share_nor_a_shared_buffer_is_pickled(pool):
    buffer = pool.allocate("2MiB", shareable=True)
    with buffer.export() as share, share.open() as shared:
        with pytest.raises(TypeError, match="multiprocessing"):
            pickle.dumps(share)
        with pytest.raises(TypeError, match="send the Share"):
            pickle.dumps(shared)
    for kind in (sharing.Share, sharing.SharedBuffer):
        with pytest.raises(TypeError, match="by hand"):
            kind()


def test_a_program_that_is_started_inherits_no_descriptor(pool):
    buffer = pool.allocate("2MiB", shareable=True)
    with buffer.export() as share:
        descriptor = share._descriptors[0]
        code = f"import os\ntry: os.fstat({descriptor})\nexcept OSError: print('closed')"
        done = subprocess.run([sys.executable, "-c", code], close_fds=False, capture_output=True, text=True, check=True)
        assert done.stdout == "closed\n"


OPEN = """
    import os, sys, gc, memlake
    (gpu,) = memlake.emulate(memory="1GiB")
    pool = memlake.Pool(gpu, handle_type="posix_fd")
    buffer = pool.allocate("100MiB")
    share = buffer.export()
    shared = share.open()
    shared.fill(1, stream=gpu.create_stream())
"""


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "view = shared.numpy()",
        "del share, shared; gc.collect()",
        "del pool, buffer; gc.collect()",
        "gpu.close()",
        "sys.kept = globals().copy()",
        "cycle = [share, shared, buffer]; cycle.append(cycle); del share, shared, buffer, cycle",
        "class Late:\n        def __del__(self): shared.close()\n    late = Late()",
    ],
)
def test_a_process_ends_well_with_shares_open(ending):
    assert_ends_well(OPEN + "    " + ending)


def test_a_forked_child_leaves_shared_memory_alone():
    assert_ends_well(
        OPEN
        + """
    gpu.synchronize()
    child = os.fork()
    if child == 0:
        try:
            for use in (share.open, buffer.export, pool.export, lambda: shared.fill(2), shared.numpy):
                try:
                    use()
                except memlake.MemlakeError as error:
                    assert any(word in str(error) for word in ("forked", "NOT_INITIALIZED", "closed")), error
                else:
                    assert use == shared.numpy, "a child used the memory"
            shared.close()
            share.close()
            del shared, share, buffer, pool
            gc.collect()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert shared.numpy()[0] == 1
    pool.check()
"""
    )


def test_a_share_names_only_the_devices_that_its_memory_lies_on(gpus):
    with memlake.Pool(gpus, handle_type="posix_fd") as pool, pool.allocate("4MiB") as buffer, buffer.export() as share:
        assert list(share.device_uuids) == [gpus[0].uuid]


def test_the_device_that_memory_is_opened_for_is_the_one_that_uses_it(gpus):
    with memlake.Pool(gpus[0], handle_type="posix_fd") as pool, pool.allocate("4MiB") as buffer:
        with buffer.export() as share, share.open(gpus[1]) as shared:
            assert shared.device == gpus[1]
            assert [piece.device for piece in shared.pieces] == [gpus[0]]
            shared.fill(7)
        assert buffer.numpy()[0] == 7
