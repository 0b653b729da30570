import pytest

import memlake
from memlake import ConfigError, InvalidFree
from memlake.emulator.emulated_device import EmulatedDevices, require_emulated


def test_devices_of_one_call_may_differ(memlake_emulator):
    small, large = memlake_emulator.emulate(memory=["64MiB", "128MiB"], granularity=["2MiB", "4MiB"])
    assert (small.total_memory, large.total_memory) == (64 * 2**20, 128 * 2**20)
    assert (small.granularity, large.granularity) == (2**21, 2**22)
    assert small.can_access(large)
    with memlake.Pool([small, large]) as pool, pool.allocate("150MiB") as buffer:
        buffer.fill(3)
        assert {piece.device for piece in buffer.pieces} == {small, large}
    with pytest.raises(ConfigError, match="memory has 2 sizes for 3 devices"):
        memlake_emulator.emulate(devices=3, memory=["64MiB", "128MiB"])


def test_emulate_gives_devices_to_unpack(memlake_emulator):
    a, b = memlake_emulator.emulate(devices=2, memory="64MiB", name="toy")
    assert a.name.startswith("toy")
    assert b.ordinal == a.ordinal + 1


def test_ordinals_are_never_used_twice():
    with memlake.emulate(memory="64MiB") as first:
        ordinal = first[0].ordinal
    with memlake.emulate(memory="64MiB") as second:
        assert second[0].ordinal > ordinal


def test_a_device_may_be_larger_than_this_machine():
    with memlake.emulate(memory="16TiB", backing="none") as (gpu,), memlake.vmm.create(gpu, "6TiB"):
        assert gpu.total_memory == 16 * 2**40
        assert gpu.free_memory == 10 * 2**40
        assert not gpu.is_host_backed


def test_granularities_can_be_chosen():
    with memlake.emulate(memory="64MiB", granularity="64KiB", recommended_granularity="2MiB") as (gpu,):
        assert gpu.granularity == 64 * 2**10
        assert gpu.recommended_granularity == 2 * 2**20


def test_peers_can_be_none_or_a_matrix():
    with memlake.emulate(devices=2, memory="64MiB", peers="none") as (a, b):
        assert not a.can_access(b)
    with memlake.emulate(devices=2, memory="64MiB", peers=[[False, True], [False, False]]) as (a, b):
        assert a.can_access(b)
        assert not b.can_access(a)
        assert a.peers == [b]
        assert b.peers == []


def test_poison_shows_memory_that_was_never_written():
    with memlake.emulate(memory="64MiB", poison=True) as (gpu,), memlake.vmm.Segment.create(gpu, "2MiB") as segment:
        pattern = bytearray(segment.nbytes)
        segment.copy_to(pattern)
        assert any(pattern)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"devices": 0}, "devices"),
        ({"devices": True}, "devices"),
        ({"devices": "2"}, "devices"),
        ({"memory": -1}, "memory"),
        ({"memory": "50%"}, "memory"),
        ({"memory": 2**63}, "memory"),
        ({"memory": "3 bananas"}, "bananas"),
        ({"memory": 0}, "memory"),
        ({"memory": "1MiB"}, "memory"),
        ({"granularity": 3}, "granularity"),
        ({"recommended_granularity": "1MiB"}, "recommended"),
        ({"backing": "ram"}, "ram"),
        ({"peers": "some"}, "some"),
        ({"peers": 7}, "peers"),
        ({"peers": [[True], [False]]}, "square"),
        ({"devices": 3, "peers": [[0, 1], [1, 0]]}, "peers"),
        ({"profile": "amd"}, "amd"),
        ({"relax": ["everything"]}, "everything"),
        ({"relax": "inflight_unmap"}, "relax"),
        ({"streams": "fibers"}, "fibers"),
        ({"driver_version": -1}, "driver_version"),
        ({"name": "a,b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_is_added(settings, named):
    before = len(memlake.devices(memlake.emulator_library()))
    with pytest.raises(ConfigError, match=named):
        memlake.emulate(**settings)
    assert len(memlake.devices(memlake.emulator_library())) == before


def test_a_group_is_a_sequence(gpus):
    assert isinstance(gpus, EmulatedDevices)
    assert len(gpus) == 2
    assert list(gpus) == [gpus[0], gpus[1]]
    assert gpus[-1] in gpus
    assert list(gpus[1:]) == [gpus[1]]
    assert "EmulatedDevice(" in repr(gpus)


def test_leaving_the_block_closes_all():
    with memlake.emulate(devices=2, memory="64MiB") as gpus:
        assert all(gpu.is_open for gpu in gpus)
    assert not any(gpu.is_open for gpu in gpus)


def test_closing_twice_is_an_invalid_free_but_leaving_a_closed_block_is_not():
    with memlake.emulate(devices=2, memory="64MiB") as gpus, gpus[0]:
        gpus.close()
    with pytest.raises(InvalidFree, match="closed before"):
        gpus.close()
    with pytest.raises(InvalidFree, match="closed before"):
        gpus[0].close()


def test_a_group_closes_what_is_still_open():
    gpus = memlake.emulate(devices=2, memory="64MiB")
    gpus[0].close()
    gpus.close()
    assert not gpus[1].is_open


def test_closing_under_a_live_view_is_a_buffer_error_and_changes_nothing(gpus):
    segment = memlake.vmm.Segment.create(gpus[1], "2MiB")
    view = segment.numpy()[10:20]
    with pytest.raises(BufferError, match="a NumPy view of its memory is alive"):
        gpus[1].close()
    with pytest.raises(BufferError):
        gpus.close()
    assert all(gpu.is_open for gpu in gpus)
    view[:] = 1
    del view
    gpus.close()


def test_what_lived_on_a_closed_device_can_still_be_closed_and_dropped(gpus):
    a, b = gpus
    everything = [
        a.create_stream(),
        a.create_event(),
        memlake.vmm.create(a, "2MiB"),
        memlake.vmm.Segment.create(a, "4MiB"),
        memlake.vmm.Segment.create(b, "4MiB"),
    ]
    addresses = memlake.vmm.reserve(a, "4MiB")
    mapping = addresses.map(everything[2])
    fused = memlake.vmm.stitch([*everything[3].chunks, *everything[4].chunks])
    a.close()
    for thing in (fused, mapping, addresses, *everything):
        thing.close()
    assert not [entry for entry in memlake.emulator.ledger().chunks if entry.device in (a.ordinal, b.ordinal)]


def test_the_ledger_of_a_device_shows_what_is_on_it(gpus):
    a, b = gpus
    chunk = memlake.vmm.create(a, "2MiB")
    assert [entry.size for entry in a.ledger().chunks] == [chunk.nbytes]
    assert not b.ledger().chunks
    assert a.ledger().held() == chunk.nbytes


def test_require_emulated_lets_emulated_devices_pass(gpu):
    require_emulated(gpu)
