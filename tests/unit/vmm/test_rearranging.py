import gc
from itertools import chain

import numpy as np
import pytest

from helpers.pictures import picture
from memlake import ConfigError, ContractViolation, DriverError, driver, emulator, vmm
from memlake.vmm import Segment

GRANULE = 2 * 2**20


def stamped(gpu, count, first=1, **options):
    """A segment whose chunk i is filled with first + i."""
    segment = Segment.create(gpu, count * GRANULE, **options)
    for index in range(count):
        segment.fill(first + index, offset=index * GRANULE, nbytes=GRANULE)
    return segment


def stamps(segment):
    """The first and last byte of every chunk must be the same: that byte for each."""
    rows = segment.numpy().reshape(-1, GRANULE)
    assert (rows[:, 0] == rows[:, -1]).all()
    return rows[:, 0].tolist()


def driver_calls(counts):
    return {call: count for call, count in counts.calls.items() if call.startswith("cuMem")}


def test_a_segment_is_split_between_chunks_without_a_driver_call(gpu):
    segment = stamped(gpu, 4)
    address = segment.address
    with driver.counting(gpu) as counts:
        left, right = segment.split(GRANULE)
    assert counts.total == 0
    assert segment.is_released
    assert (left.address, right.address) == (address, address + GRANULE)
    assert (stamps(left), stamps(right)) == ([1], [2, 3, 4])


@pytest.mark.parametrize("at", [0, 1, GRANULE - 1, 4 * GRANULE, 5 * GRANULE])
def test_a_segment_is_split_only_between_chunks(gpu, at):
    segment = Segment.create(gpu, 4 * GRANULE)
    with pytest.raises(ConfigError, match="no chunk ends there; the nearest boundaries are"):
        segment.split(at)
    assert not segment.is_released


def test_a_single_chunk_cannot_be_split(gpu):
    with pytest.raises(ConfigError, match="only one chunk"):
        Segment.create(gpu, GRANULE).split(GRANULE)


def test_the_addresses_go_back_with_the_last_part(gpu):
    left, right = Segment.create(gpu, 2 * GRANULE).split(GRANULE)
    left.close()
    assert len(gpu.ledger().reservations) == 1
    right.fill(1)
    right.close()
    assert gpu.ledger().is_empty


def test_the_addresses_go_back_with_the_last_part_that_is_dropped(gpu):
    left, right = Segment.create(gpu, 2 * GRANULE).split(GRANULE)
    del right
    left.fill(1)
    del left
    gc.collect()
    assert gpu.ledger().is_empty


def test_parts_keep_what_is_used_and_whose_it_is(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    segment.take(1, 2)
    fused = vmm.stitch([segment.chunks[3]])
    left, right = segment.split(2 * GRANULE)
    assert [chunk.user for chunk in left.chunks] == [None, left]
    assert [chunk.user for chunk in right.chunks] == [right, fused]
    assert not left.is_fused
    assert {chunk.home for chunk in left.chunks} == {left}
    one, two = vmm.stitch([left.chunks[0], vmm.create(gpu, GRANULE)]).split(GRANULE)
    assert one.is_fused
    assert two.is_fused
    assert left.chunks[0].user is one


def test_neighbours_are_merged_without_a_driver_call(gpu):
    left, right = stamped(gpu, 4).split(GRANULE)
    right.take(0)
    with driver.counting(gpu) as counts:
        merged = left.merge(right)
    assert counts.total == 0
    assert left.is_released
    assert right.is_released
    assert stamps(merged) == [1, 2, 3, 4]
    assert merged.chunks[1].user is merged
    merged.close()
    assert gpu.ledger().is_empty


def test_neighbours_keep_their_order_whichever_is_asked(gpu):
    left, right = stamped(gpu, 2).split(GRANULE)
    assert stamps(right.merge(left)) == [1, 2]


def test_parts_that_do_not_touch_are_moved(gpu):
    left, rest = stamped(gpu, 3).split(GRANULE)
    middle, right = rest.split(GRANULE)
    merged = left.merge(right)
    assert stamps(merged) == [1, 3]
    assert stamps(middle) == [2]
    merged.close()
    middle.close()
    assert gpu.ledger().is_empty


def test_strangers_are_moved_into_a_new_range_with_their_contents(gpus):
    first, second = stamped(gpus[0], 2, access=gpus), stamped(gpus[1], 3, first=10, access=gpus)
    second.take(1)
    with driver.counting(gpus[0]) as counts:
        merged = first.merge(second)
    assert stamps(merged) == [1, 2, 10, 11, 12]
    assert merged.devices == list(gpus)
    assert not merged.is_fused
    assert merged.chunks[3].user is merged
    assert [merged.access(gpu) for gpu in gpus] == ["rw", "rw"]
    calls = driver_calls(counts)
    assert calls.pop("cuMemGetAccess") > 0
    assert calls == {
        "cuMemAddressReserve": 1,
        "cuMemMap": 5,
        "cuMemSetAccess": 1,
        "cuMemUnmap": 2,
        "cuMemAddressFree": 2,
    }
    merged.close()
    assert all(gpu.ledger().is_empty for gpu in gpus)


def test_each_chunk_keeps_its_rights_when_it_is_moved(gpus):
    a, b = gpus
    first, second, third = Segment.create(a, GRANULE), Segment.create(b, GRANULE), Segment.create(a, GRANULE)
    first.set_access(b, "r")
    third.set_access(a, "none")
    merged = first.merge(second).merge(third)
    entries = sorted(
        (entry.address, dict(entry.access)) for entry in emulator.ledger().mappings if entry.size == GRANULE
    )
    assert [access for address, access in entries if address >= merged.address][:3] == [
        {a.ordinal: 3, b.ordinal: 1},
        {b.ordinal: 3},
        {},
    ]


def test_a_fused_segment_can_be_merged_too(gpu):
    home = stamped(gpu, 4)
    own = stamped(gpu, 1, first=20)
    merged = vmm.stitch(home.chunks[::2]).merge(own)
    assert merged.is_fused
    assert stamps(merged) == [1, 3, 20]
    assert home.free_chunks == 2
    merged.close()
    assert home.free_chunks == 4
    home.close()
    assert gpu.ledger().is_empty


def test_a_segment_whose_chunks_are_used_elsewhere_can_be_moved(gpu):
    home, other = stamped(gpu, 2), stamped(gpu, 1, first=9)
    fused = vmm.stitch(home.chunks)
    merged = home.merge(other)
    assert stamps(fused) == [1, 2]
    assert merged.chunks[0].user is fused
    assert merged.chunks[0].home is merged


def strangers(gpus):
    """Two segments on two devices, with different rights."""
    first, second = stamped(gpus[0], 2, access=gpus), stamped(gpus[1], 2, first=10)
    first.set_access(gpus[1], "r")
    return first, second


def test_a_merge_of_which_any_call_fails_changes_nothing(gpus):
    first, second = strangers(gpus)
    with driver.counting(gpus[0]) as counts:
        first.merge(second).close()
    # The last calls give two ranges of addresses back, when the merge is done; see the next test.
    calls = counts.total - counts["cuMemRelease"] - 4
    for k in range(1, calls + 1):
        first, second = strangers(gpus)
        before = picture(gpus)
        with driver.failing(gpus[0], nth=k, code=999), pytest.raises(DriverError) as caught:
            first.merge(second)
        assert caught.value.code == 999
        assert picture(gpus) == before
        assert (stamps(first), stamps(second)) == ([1, 2], [10, 11])
        assert [first.access(gpu) for gpu in gpus] == ["rw", "r"]
        merged = first.merge(second)
        assert stamps(merged) == [1, 2, 10, 11]
        merged.close()


@pytest.mark.parametrize("nth", [1, 2])
def test_addresses_that_do_not_go_back_after_a_merge_are_a_warning(gpus, nth):
    first, second = strangers(gpus)
    with (
        driver.failing(gpus[0], call="cuMemAddressFree", nth=nth, code=999),
        pytest.warns(ResourceWarning, match="cuMemAddressFree answered 999"),
    ):
        merged = first.merge(second)
    assert stamps(merged) == [1, 2, 10, 11]


def test_work_in_flight_stops_a_merge(gpu, memlake_emulator):
    first, second = stamped(gpu, 2), stamped(gpu, 2, first=10)
    stream = gpu.create_stream()
    with emulator.hold(stream):
        emulator.launch(stream, "work", writes=[second])
        before = picture([gpu])
        with pytest.raises(ContractViolation, match="work"):
            first.merge(second)
        assert picture([gpu]) == before
    stream.sync()
    assert stamps(first.merge(second)) == [1, 2, 10, 11]
    memlake_emulator.take_violations()


def test_a_segment_is_not_merged_with_itself_or_with_anything_else(gpu):
    segment = Segment.create(gpu, GRANULE)
    for other in (segment, None, segment.chunks[0]):
        with pytest.raises(ConfigError):
            segment.merge(other)
    assert not segment.is_released


def test_split_and_merge_in_any_order_keep_the_bytes(gpu):
    random = np.random.default_rng(7)
    parts = [stamped(gpu, 8)]
    for _ in range(60):
        if len(parts) > 1 and random.random() < 0.5:
            first, second = (parts.pop(random.integers(len(parts))) for _ in range(2))
            parts.append(first.merge(second))
        else:
            part = parts.pop(random.integers(len(parts)))
            count = len(part.chunks)
            parts.extend(part.split(int(random.integers(1, count)) * GRANULE) if count > 1 else [part])
        assert sorted(chain.from_iterable(map(stamps, parts))) == list(range(1, 9))
    for part in parts:
        part.close()
    assert gpu.ledger().is_empty
