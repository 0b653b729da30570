"""Whether a replay does what a record says, on small records where the answer is plain."""

import pytest

from memlake import ConfigError, Trace
from memlake.policies import CachingOptions, ExpandableOptions
from memlake.trace import recorded_policy, verify

MIB = 1024**2
BASE = 0x7F0000000000


@pytest.fixture
def exact(record):
    """A record from the first segment on, as PyTorch's native allocator makes it."""
    record.event("segment_alloc", BASE, 20 * MIB)
    record.alloc(BASE, 3 * MIB)
    record.alloc(BASE + 3 * MIB, 2 * MIB)
    record.free(BASE, 3 * MIB)
    record.alloc(BASE, 2 * MIB + 100)  # the best fit, of which less than 1 MiB is left
    record.event("segment_alloc", BASE + 32 * MIB, 2 * MIB)
    record.alloc(BASE + 32 * MIB, 700)
    record.segment(
        BASE,
        [
            (3 * MIB, 2 * MIB + 100, "active_allocated"),
            (2 * MIB, 2 * MIB, "active_allocated"),
            (15 * MIB, 7, "inactive"),
        ],
    )
    record.segment(BASE + 32 * MIB, [(1024, 700, "active_allocated"), (2 * MIB - 1024, 0, "inactive")])
    return record


def test_a_record_that_keeps_the_rules_is_exact(exact, load):
    verification = verify(load(exact))
    assert verification.is_exact
    assert verification.is_complete
    assert verification.differences == ()
    counted = (verification.num_allocations, verification.num_segment_events, verification.num_blocks)
    assert counted == (4, 2, 5)
    assert verification.policy == CachingOptions()


def test_another_address_is_a_difference_and_says_where(exact, load):
    exact.events[5]["addr"] = BASE + 5 * MIB
    verification = verify(load(exact))
    assert not verification.is_exact
    first = verification.differences[0]
    assert (first.row, first.what, first.recorded, first.replayed) == (3, "address", BASE + 5 * MIB, BASE)


def test_a_segment_of_another_size_is_a_difference(exact, load):
    exact.events[0]["size"] = 24 * MIB
    first = verify(load(exact)).differences[0]
    assert first.what == "segment event"
    assert first.recorded == (0, "segment_alloc", BASE, 24 * MIB, 0)
    assert first.replayed == (0, "segment_alloc", BASE, 20 * MIB, 0)


def test_another_block_at_the_end_is_a_difference(exact, load):
    exact.segments[1]["blocks"][0]["size"] += 512
    exact.segments[1]["blocks"][1].update(address=BASE + 32 * MIB + 1536, size=2 * MIB - 1536)
    trace = load(exact)
    (difference,) = verify(trace).differences
    assert (difference.row, difference.what) == (len(trace), "segment")


def test_a_record_that_begins_late_is_compared_from_its_layout_on(record, load):
    record.free(BASE + 4 * MIB, 8 * MIB)
    record.alloc(BASE + 4 * MIB, 14 * MIB)
    record.segment(
        BASE,
        [(4 * MIB, 4 * MIB, "active_allocated"), (14 * MIB, 14 * MIB, "active_allocated"), (2 * MIB, 0, "inactive")],
    )
    verification = verify(load(record))
    assert verification.is_exact
    assert not verification.is_complete
    assert verification.num_allocations == 1


@pytest.mark.parametrize(("reused", "tie_break"), [(BASE, "address"), (BASE + 64 * MIB, "age")])
def test_which_of_two_equal_blocks_is_taken_is_told_from_the_record(record, load, reused, tie_break):
    for address in (BASE + 64 * MIB, BASE):
        record.event("segment_alloc", address, 30 * MIB)
        record.alloc(address, 30 * MIB)
    for address in (BASE + 64 * MIB, BASE):
        record.free(address, 30 * MIB)
    record.alloc(reused, 30 * MIB)
    for address in (BASE, BASE + 64 * MIB):
        is_live = address == reused
        record.segment(address, [(30 * MIB, 30 * MIB, "active_allocated" if is_live else "inactive")])
    verification = verify(load(record))
    assert verification.is_exact
    assert verification.tie_break == tie_break


def test_segments_that_are_given_back_are_those_that_are_free(record, load):
    record.event("segment_alloc", BASE, 20 * MIB)
    record.alloc(BASE, 4 * MIB)
    record.event("segment_alloc", BASE + 32 * MIB, 30 * MIB)
    record.alloc(BASE + 32 * MIB, 30 * MIB)
    record.free(BASE + 32 * MIB, 30 * MIB)
    record.event("segment_free", BASE + 32 * MIB, 30 * MIB)
    record.event("segment_alloc", BASE + 32 * MIB, 40 * MIB)
    record.alloc(BASE + 32 * MIB, 40 * MIB)
    record.segment(BASE, [(4 * MIB, 4 * MIB, "active_allocated"), (16 * MIB, 0, "inactive")])
    record.segment(BASE + 32 * MIB, [(40 * MIB, 40 * MIB, "active_allocated")])
    assert verify(load(record)).is_exact


def test_expandable_segments_are_compared_page_by_page(record, load):
    record.event("segment_map", BASE, 40 * MIB)
    record.alloc(BASE, 30 * MIB)
    record.event("segment_map", BASE + 40 * MIB, 20 * MIB)
    record.alloc(BASE + 30 * MIB, 15 * MIB)
    blocks = [
        (30 * MIB, 30 * MIB, "active_allocated"),
        (15 * MIB, 15 * MIB, "active_allocated"),
        (15 * MIB, 0, "inactive"),
    ]
    record.segment(BASE, blocks, is_expandable=True)
    snapshot = record.snapshot()
    snapshot["allocator_settings"]["expandable_segments"] = True
    verification = verify(load(snapshot))
    assert verification.is_exact
    assert verification.policy == ExpandableOptions()


def test_memory_that_another_stream_awaits_is_not_reused(record, load):
    record.event("segment_alloc", BASE, 30 * MIB)
    record.alloc(BASE, 30 * MIB)
    record.event("free_requested", BASE, 30 * MIB)
    record.event("segment_alloc", BASE + 64 * MIB, 30 * MIB)
    record.alloc(BASE + 64 * MIB, 30 * MIB)
    record.event("free_completed", BASE, 30 * MIB)
    record.alloc(BASE, 30 * MIB)
    record.event("free_requested", BASE, 30 * MIB)
    record.segment(BASE, [(30 * MIB, 30 * MIB, "active_pending_free")])
    record.segment(BASE + 64 * MIB, [(30 * MIB, 30 * MIB, "active_allocated")])
    assert verify(load(record)).is_exact


def test_the_policy_is_the_one_that_the_snapshot_names(exact, load):
    snapshot = exact.snapshot()
    snapshot["allocator_settings"] = {
        "max_split_size": 128 * MIB,
        "garbage_collection_threshold": 0.8,
        "expandable_segments": False,
        "roundup_power2_divisions": {"1": 4, "2": 8, "32768": 2},
    }
    assert recorded_policy(load(snapshot)) == CachingOptions(
        max_split_size="128MiB",
        garbage_collection_threshold=0.8,
        roundup_power2_divisions=[4, 8, *[0] * 13, 2],
    )
    snapshot["allocator_settings"] = {"max_split_size": "large", "roundup_power2_divisions": [1]}
    assert recorded_policy(load(snapshot)) == CachingOptions()


def test_a_policy_can_be_given(exact, load):
    verification = verify(load(exact), policy=CachingOptions(large_segment_size="32MiB"))
    assert verification.differences[0].replayed == (0, "segment_alloc", BASE, 32 * MIB, 0)


def test_a_trace_without_a_record_is_refused():
    with pytest.raises(ConfigError, match="no record of what its allocator did"):
        verify(Trace([0], [0], [512]))


def test_a_record_that_begins_inside_expandable_segments_is_refused(record, load):
    record.free(BASE, 3 * MIB)
    record.segment(BASE, [(20 * MIB, 0, "inactive")], is_expandable=True)
    with pytest.raises(ConfigError, match="start recording before the first allocation"):
        verify(load(record))


def test_a_record_of_more_than_any_device_has_is_refused(record, load):
    record.event("segment_alloc", BASE, 2**44)
    record.alloc(BASE, 2**44)
    with pytest.raises(ConfigError, match="which no device has"):
        verify(load(record))
