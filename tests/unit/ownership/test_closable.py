import asyncio

import pytest

import memlake
from memlake import emulator, vmm
from memlake.ownership.closable import Closable

OPENERS = [
    lambda gpu: gpu.create_stream(),
    lambda gpu: gpu.create_event(),
    lambda gpu: vmm.create(gpu, "2MiB"),
    lambda gpu: vmm.reserve(gpu, "2MiB"),
    lambda gpu: vmm.Segment.create(gpu, "2MiB"),
]


@pytest.mark.parametrize("opened", OPENERS)
def test_the_end_of_a_block_closes_what_is_open(gpu, opened):
    with opened(gpu) as owner:
        assert isinstance(owner, Closable)
        assert owner.is_open
    assert not owner.is_open
    assert gpu.ledger().is_empty


@pytest.mark.parametrize("opened", OPENERS)
def test_what_was_closed_inside_its_block_stays_closed(gpu, opened):
    with opened(gpu) as owner:
        owner.close()
    assert not owner.is_open


def test_devices_are_open_while_one_of_them_is(memlake_emulator):
    gpus = memlake_emulator.emulate(devices=2, memory="64MiB")
    gpus[0].close()
    with gpus:
        assert gpus.is_open
    assert not gpus.is_open


def test_the_end_of_a_block_opens_a_gate(gpu):
    with emulator.hold(gpu) as gate:
        assert not gate.is_open
    assert gate.is_open


def test_an_error_inside_the_block_is_the_one_that_is_raised(gpu):
    with pytest.raises(ZeroDivisionError), gpu.create_stream() as stream:
        raise ZeroDivisionError
    assert not stream.is_open


def test_an_async_block_closes_in_a_thread_so_that_the_event_loop_goes_on(gpu):
    async def use() -> tuple[bool, bool, bool]:
        async with memlake.Pool(gpu) as pool:
            async with pool.allocate("2MiB") as buffer:
                assert buffer.is_open
            stream = gpu.create_stream()
            gate = memlake.emulator.hold(stream)
            kept = pool.allocate("2MiB", stream=stream)
            kept.fill(1, stream=stream)
            kept.close()
            # The end of the block waits for the stream, and the loop opens its gate meanwhile.
            asyncio.get_running_loop().call_soon(gate.open)
        return buffer.is_open, pool.is_open, kept.is_open

    assert asyncio.run(use()) == (False, False, False)


def test_an_error_leaves_an_async_block_as_it_leaves_another(gpu):
    async def fail(pool: memlake.Pool) -> None:
        async with pool:
            raise LookupError

    pool = memlake.Pool(gpu)
    with pytest.raises(LookupError):
        asyncio.run(fail(pool))
    assert not pool.is_open
