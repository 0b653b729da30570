"""The policy lake in Python: memory that moves, and pools over several devices."""

import numpy as np
import pytest

import memlake
from memlake import ConfigError, OutOfMemory
from memlake.policies import LakeOptions

GIB, MIB = 2**30, 2**20


def scattered(pool, nbytes):
    """Fills a pool with buffers and frees every other one."""
    buffers = []
    while True:
        try:
            buffers.append(pool.allocate(nbytes))
        except OutOfMemory:
            break
    for buffer in buffers[1::2]:
        buffer.close()
    return buffers[::2]


@pytest.mark.needs("virtual_memory")
def test_it_is_the_default(gpu):
    assert memlake.Pool(gpu).policy == LakeOptions()


@pytest.mark.parametrize("backing", ["none", "host"])
def test_two_devices_of_8_gib_give_10_gib_in_one_range(memlake_emulator, backing):
    a, b = memlake_emulator.emulate(devices=2, memory="8GiB", backing=backing)
    with memlake.Pool([a, b]) as pool:
        buffer = pool.allocate("10GiB")
        assert [(piece.device, piece.offset, piece.nbytes) for piece in buffer.pieces] == [
            (a, 0, 8 * GIB),
            (b, 8 * GIB, 2 * GIB),
        ]
        assert pool.devices == (a, b)
        if backing == "host":
            # Across the border between the devices, and at both ends.
            written = np.arange(2 * MIB, dtype=np.uint8)
            view = buffer.numpy()
            for offset in (0, 8 * GIB - MIB, 10 * GIB - 2 * MIB):
                view[offset : offset + len(written)] = written
                assert (view[offset : offset + len(written)] == written).all()
            del view
            buffer.fill(9, offset=8 * GIB - 4, nbytes=8)
            assert buffer.numpy()[8 * GIB - 5 : 8 * GIB + 5].tolist()[1:-1] == [9] * 8
        pool.check()
        buffer.close()
    assert memlake_emulator.ledger().held(a) == memlake_emulator.ledger().held(b) == 0


def test_devices_that_cannot_reach_each_other_are_refused_up_front(memlake_emulator):
    a, b = memlake_emulator.emulate(devices=2, memory="64MiB", peers="none")
    with pytest.raises(ConfigError, match=r"cannot reach the memory of .*make one pool each"):
        memlake.Pool([a, b])


def test_other_policies_know_one_device(gpus):
    with pytest.raises(ConfigError, match='needs the policy "lake"'):
        memlake.Pool(list(gpus), "expandable")


def held_by(pool, gpus):
    ledger = memlake.emulator.ledger()
    return [ledger.held(gpu) // MIB for gpu in gpus]


def test_fill_takes_the_first_device_first(gpus):
    with memlake.Pool(list(gpus)) as pool, pool.allocate("40MiB") as one, pool.allocate("40MiB") as two:
        assert [piece.device for piece in one.pieces] == [gpus[0]]
        assert {piece.device for piece in two.pieces} == set(gpus)


def test_balance_spreads_buffers_over_all(gpus):
    with memlake.Pool(list(gpus), placement="balance") as pool:
        buffers = [pool.allocate("8MiB") for _ in range(8)]
        assert held_by(pool, gpus) == [32, 32]
        for buffer in buffers:
            assert len(buffer.pieces) == 1
            buffer.close()


def test_balance_keeps_a_buffer_on_one_device_if_it_fits_on_one(memlake_emulator):
    small, large = memlake_emulator.emulate(memory=["64MiB", "128MiB"])
    with memlake.Pool([small, large], placement="balance") as pool:
        with pool.allocate("40MiB") as first, pool.allocate("100MiB") as second, pool.allocate("20MiB") as third:
            assert [piece.device for piece in first.pieces] == [small]
            assert [piece.device for piece in second.pieces] == [large]
            assert [piece.device for piece in third.pieces] == [small]
        # The blocks of 40 and of 100 MiB are free and side by side, and one request could have the end of both.
        with pool.allocate("90MiB") as again, pool.allocate("30MiB") as other:
            assert [piece.device for piece in again.pieces] == [large]
            assert [piece.device for piece in other.pieces] == [small]
        with pool.allocate("150MiB") as both:  # it fits on neither alone
            assert {piece.device for piece in both.pieces} == {small, large}
        pool.check()


def test_balance_does_not_grow_a_buffer_from_memory_of_another_device(gpus):
    with memlake.Pool(list(gpus), placement="balance") as pool:
        # Each leaves the rest of its last granule free, right where the next one grows.
        buffers = [pool.allocate(5 * MIB + 512) for _ in range(10)]
        assert all(len(buffer.pieces) == 1 for buffer in buffers)
        first, second = held_by(pool, gpus)
        assert abs(first - second) <= 8
        pool.check()
        for buffer in buffers:
            buffer.close()


@pytest.mark.parametrize(
    ("made", "freed", "wanted"),
    [
        (16, [(0, 2), (0, 2, 4, 6)], "32MiB"),  # the devices are full, and the second one has enough free chunks
        (14, [(1,), (0, 2, 4)], "32MiB"),  # 24 MiB in free chunks, and room for the rest on the same device
        (12, [(), (2,)], "24MiB"),  # there is room for all of it on both devices together
    ],
)
def test_balance_moves_chunks_of_one_device_before_it_uses_two(gpus, made, freed, wanted):
    with memlake.Pool(list(gpus), placement="balance") as pool:
        buffers = [pool.allocate("8MiB") for _ in range(made)]
        for gpu, numbers in zip(gpus, freed, strict=True):
            there = [buffer for buffer in buffers if buffer.pieces[0].device == gpu]
            for number in numbers:
                buffers.remove(there[number])
                there[number].close()
        with pool.allocate(wanted) as buffer:
            assert {piece.device for piece in buffer.pieces} == {gpus[1]}
            pool.check()
        with pool.allocate("8MiB") as again:  # what is left over does not mix devices either
            assert len(again.pieces) == 1
        pool.check()
        for buffer in buffers:
            buffer.close()


def test_near_takes_the_device_of_the_stream(gpus):
    stream = gpus[1].create_stream()
    with memlake.Pool(list(gpus), placement="near") as pool, pool.allocate("40MiB", stream=stream) as buffer:
        assert [piece.device for piece in buffer.pieces] == [gpus[1]]
        with pool.allocate("40MiB") as other:
            assert [piece.device for piece in other.pieces] == [gpus[0]]


def test_a_placement_that_does_not_exist_is_refused(gpus):
    with pytest.raises(ConfigError, match="placement must be"):
        memlake.Pool(list(gpus), placement="far")


@pytest.mark.needs("virtual_memory")
def test_scattered_memory_serves_a_large_request_and_the_counters_say_how(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="256MiB", backing="none")
    with memlake.Pool(gpu) as pool:
        kept = scattered(pool, "16MiB")
        before = pool.stats()
        with pool.allocate("100MiB"):
            after = pool.stats()
            assert after.policy_counters["moved_chunks"] > before.policy_counters["moved_chunks"]
            assert after.held == before.held
            pool.check()
        for buffer in kept:
            buffer.close()
    assert set(after.policy_counters) >= {"moved_chunks", "borrowed_pieces", "chunks", "reserved_addresses"}


def test_without_aliases_whole_chunks_move_and_nothing_is_borrowed(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="256MiB", backing="none")
    with memlake.Pool(gpu, LakeOptions(aliasing="none")) as pool:
        kept = scattered(pool, "16MiB")
        with pool.allocate("100MiB"):
            counters = pool.stats().policy_counters
            assert counters["moved_chunks"] > 0
            assert counters["borrowed_pieces"] == 0
        for buffer in kept:
            buffer.close()


@pytest.mark.needs("virtual_memory")
def test_live_buffers_keep_their_bytes_while_chunks_move(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", backing="host")
    with memlake.Pool(gpu) as pool:
        kept = scattered(pool, "9MiB")
        for value, buffer in enumerate(kept):
            buffer.fill(value)
        with pool.allocate("50MiB") as large:
            large.fill(255)
            for value, buffer in enumerate(kept):
                assert (buffer.numpy() == value).all()
        assert pool.stats().policy_counters["moved_chunks"] > 0
        for buffer in kept:
            buffer.close()
