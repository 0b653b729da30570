"""Pools on every machine: what works everywhere must work, and what a machine lacks must be said."""

import random
import warnings

import pytest

import memlake
from memlake.policies import known_policies

MIB = 2**20


def make_pool(devices, policy=None, **options):
    """A pool; the warning about what the machine lacks is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return memlake.Pool(devices, policy, **options)


def content(buffer):
    """The bytes, also of memory that the CPU cannot access."""
    read = bytearray(buffer.nbytes)
    buffer.copy_to(read)
    return read


def is_filled(buffer, value):
    return content(buffer) == bytes([value]) * buffer.nbytes


def usable_policies(device):
    needs = {name: options().capabilities.virtual_memory for name, options in known_policies().items()}
    has = device.features["virtual_memory"].has
    return [name for name, needed in needs.items() if has or not needed]


def test_every_policy_that_the_device_can_have_keeps_the_bytes(device):
    for policy in usable_policies(device):
        with make_pool(device, policy, limit="128MiB") as pool:
            sizes = [MIB * n + 512 * n for n in (1, 3, 7, 2, 12, 5, 1, 4, 9, 6)]
            buffers = [pool.allocate(size) for size in sizes]
            for number, buffer in enumerate(buffers):
                buffer.fill(number)
            for buffer in buffers[::2]:
                buffer.close()
            again = [pool.allocate(size) for size in sizes[::2]]
            for number, buffer in enumerate(again):
                buffer.fill(100 + number)
            assert all(is_filled(buffer, 2 * number + 1) for number, buffer in enumerate(buffers[1::2])), policy
            assert all(is_filled(buffer, 100 + number) for number, buffer in enumerate(again)), policy
            for buffer in (*buffers[1::2], *again):
                buffer.close()
            pool.check()


def test_a_policy_that_the_device_cannot_have_is_refused(device):
    for policy in set(known_policies()) - set(usable_policies(device)):
        with pytest.raises(memlake.ConfigError, match="needs virtual memory management"):
            make_pool(device, policy)


def test_scattered_memory_is_gathered_where_memory_can_move(device):
    with make_pool(device, limit="64MiB") as pool:
        buffers = [pool.allocate("4MiB") for _ in range(15)]
        for number, buffer in enumerate(buffers):
            buffer.fill(number)
        for buffer in buffers[::2]:
            buffer.close()
        if pool.policy.name == "lake":
            with pool.allocate("24MiB") as gathered:
                gathered.fill(200)
                assert is_filled(gathered, 200)
                assert all(is_filled(buffer, 2 * number + 1) for number, buffer in enumerate(buffers[1::2]))
        else:
            with pytest.raises(memlake.OutOfMemory):
                pool.allocate("30MiB")
        for buffer in buffers[1::2]:
            buffer.close()
        pool.check()


def test_queued_work_of_another_stream_keeps_its_memory(device):
    with device.create_stream() as one, device.create_stream() as two, make_pool(device, limit="64MiB") as pool:
        for round_ in range(5):
            first = pool.allocate("20MiB", stream=one)
            first.fill(round_, stream=one)
            copy = pool.allocate("20MiB", stream=two)
            two.wait(one)
            copy.copy_from(first, stream=two)
            first.record_stream(two)
            first.close()
            with pool.allocate("20MiB", stream=one) as other:
                other.fill(255, stream=one)
            two.sync()
            assert is_filled(copy, round_)
            copy.close(stream=two)
            one.sync()
        pool.check()


def test_a_refused_request_says_why_and_changes_nothing(device):
    with make_pool(device, limit="32MiB") as pool:
        with pool.allocate("20MiB") as buffer:
            buffer.fill(1)
            with pytest.raises(memlake.OutOfMemory, match="20 MiB"):
                pool.allocate("20MiB")
            assert is_filled(buffer, 1)
        pool.check()


def test_shareable_memory_or_a_reason(device):
    with make_pool(device) as pool:
        if device.features["file_descriptors"].has:
            with pool.allocate("4MiB", shareable=True) as buffer:
                buffer.fill(8)
                buffer.export()
                assert is_filled(buffer, 8)
        else:
            with pytest.raises(memlake.ConfigError, match=r"virtual memory management|file descriptors"):
                pool.allocate("4MiB", shareable=True)
        pool.check()


def test_a_single_handle_or_a_reason(device):
    with make_pool(device) as pool:
        if device.features["virtual_memory"].has:
            with pool.allocate("6MiB", single_handle=True) as buffer:
                buffer.fill(4)
                assert len(buffer.handles) == 1
                assert is_filled(buffer, 4)
        else:
            with pytest.raises(memlake.ConfigError, match="virtual memory management"):
                pool.allocate("6MiB", single_handle=True)
        pool.check()


def test_a_registration_or_a_reason(device):
    with make_pool(device) as pool, pool.allocate("6MiB") as buffer:
        assert buffer.pieces[0].is_rdma_capable is pool.rdma
        if pool.rdma:
            buffer.pin(registration=True)
            buffer.unpin()
        else:
            with pytest.raises(memlake.ConfigError, match="not granted"):
                buffer.pin(registration=True)


@pytest.mark.parametrize(("location", "feature"), [("host", "host_memory"), ("host_numa", "host_numa_memory")])
def test_memory_of_the_host_or_a_reason(device, location, feature):
    if not device.features[feature].has:
        with pytest.raises(memlake.ConfigError):
            make_pool(device, "lake", location=location)
        return
    with make_pool(device, "lake", location=location, limit="32MiB") as pool, pool.allocate("10MiB") as buffer:
        buffer.fill(6)
        assert is_filled(buffer, 6)


def test_a_buffer_over_device_and_host_is_one_range(device):
    if not device.features["host_numa_memory"].has:
        with pytest.raises(memlake.ConfigError):
            make_pool(device, "lake", spill="host")
        return
    with make_pool(device, "lake", spill="host", limit="32MiB") as pool, pool.allocate("40MiB") as buffer:
        assert len(buffer.pieces) == 2
        buffer.fill(11)
        assert is_filled(buffer, 11)


def test_a_buffer_over_two_devices_is_one_range(devices):
    if len(devices) < 2 or not devices[0].can_access(devices[1]) or not devices[1].can_access(devices[0]):
        pytest.skip("there are no two devices that reach each other's memory")
    if not all(device.features["virtual_memory"].has for device in devices[:2]):
        with pytest.raises(memlake.ConfigError):
            make_pool(devices[:2])
        return
    with make_pool(devices[:2], placement="balance", limit="128MiB") as pool:
        buffers = [pool.allocate("12MiB") for _ in range(10)]
        for number, buffer in enumerate(buffers):
            buffer.fill(number)
        assert all(is_filled(buffer, number) for number, buffer in enumerate(buffers))
        for buffer in buffers[::2]:
            buffer.close()
        with pool.allocate("40MiB") as large:
            large.fill(77)
            assert is_filled(large, 77)
        assert all(is_filled(buffer, 2 * number + 1) for number, buffer in enumerate(buffers[1::2]))
        for buffer in buffers[1::2]:
            buffer.close()
        pool.check()


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_keep_their_bytes(device, seed):
    chance = random.Random(seed)
    with make_pool(device, limit="96MiB") as pool:
        live = []
        for step in range(250):
            if live and chance.random() < 0.45:
                buffer, value = live.pop(chance.randrange(len(live)))
                # The ends suffice: chunks hold them, and the whole would take long.
                ends = bytearray(64)
                buffer.copy_to(ends)
                assert ends == bytes([value]) * 64
                buffer.copy_to(ends, offset=buffer.nbytes - 64)
                assert ends == bytes([value]) * 64
                buffer.close()
                continue
            try:
                buffer = pool.allocate(chance.choice([4096, 300_000, 2 * MIB, 5 * MIB, 11 * MIB, 21 * MIB]))
            except memlake.OutOfMemory:
                if live:
                    live.pop(0)[0].close()
                continue
            buffer.fill(step % 251)
            live.append((buffer, step % 251))
        pool.check()
        for buffer, _ in live:
            buffer.close()
        pool.check()
