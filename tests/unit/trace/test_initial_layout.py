"""The layout before the first event. PyTorch's rules, on small cases where the answer is plain."""

import pytest

MIB = 1024**2
BASE = 0x7F0000000000


def layout(trace):
    return [
        (segment.address - BASE, segment.nbytes, [(block.nbytes, block.state, block.id) for block in segment.blocks])
        for segment in trace.recorded.initial
    ]


def test_a_segment_that_came_later_was_not_there(record, load):
    record.event("segment_alloc", BASE, 2 * MIB)
    record.alloc(BASE, 512)
    record.segment(BASE, [(512, 512, "active_allocated"), (2 * MIB - 512, 0, "inactive")])
    record.segment(BASE + 4 * MIB, [(512, 9, "active_allocated"), (2 * MIB - 512, 0, "inactive")])
    trace = load(record)
    assert layout(trace) == [(4 * MIB, 2 * MIB, [(512, "live", 0), (2 * MIB - 512, "free", None)])]
    assert not trace.recorded.is_complete


def test_a_segment_that_went_away_was_there(record, load):
    record.free(BASE, 12 * MIB)
    record.event("segment_free", BASE, 20 * MIB)
    assert layout(load(record)) == [(0, 20 * MIB, [(12 * MIB, "live", 0), (8 * MIB, "free", None)])]


def test_in_a_small_segment_every_gap_is_free(record, load):
    record.free(BASE + 512, 100)
    record.segment(BASE, [(2 * MIB, 0, "inactive")])
    assert layout(load(record)) == [
        (0, 2 * MIB, [(512, "free", None), (512, "live", 0), (2 * MIB - 1024, "free", None)]),
    ]


def test_in_a_large_segment_a_gap_up_to_1_mib_is_slack(record, load):
    record.free(BASE, 15 * MIB + 100)
    record.free(BASE + 16 * MIB, 2 * MIB)
    record.segment(BASE, [(20 * MIB, 0, "inactive")])
    assert layout(load(record)) == [
        (0, 20 * MIB, [(16 * MIB, "live", 0), (2 * MIB, "live", 1), (2 * MIB, "free", None)])
    ]


def test_a_block_that_is_there_at_the_end_has_the_size_it_has_then(record, load):
    record.segment(BASE, [(16 * MIB + 512 * 1024, 16 * MIB, "active_allocated"), (3 * MIB + 512 * 1024, 0, "inactive")])
    record.free(2, 1)
    assert layout(load(record))[0][2] == [(16 * MIB + 512 * 1024, "live", 1), (3 * MIB + 512 * 1024, "free", None)]


@pytest.mark.parametrize(("is_live_then", "size"), [(True, 12 * MIB + 4096), (False, 12 * MIB)])
def test_in_a_larger_gap_an_allocation_during_its_life_shows_where_a_block_ended(record, load, is_live_then, size):
    if not is_live_then:
        record.free(BASE, 12 * MIB)
    record.alloc(BASE + 12 * MIB + 4096, 2 * MIB)
    record.free(BASE + 12 * MIB + 4096, 2 * MIB)
    if is_live_then:
        record.free(BASE, 12 * MIB)
    record.segment(BASE, [(20 * MIB, 0, "inactive")])
    assert layout(load(record))[0][2] == [(size, "live", 0), (20 * MIB - size, "free", None)]


def test_mapped_parts_are_rewound_by_stream(record, load):
    page = 20 * MIB
    record.event("segment_map", BASE + 2 * page, page, stream=5)
    record.event("segment_unmap", BASE + page, page, stream=5)
    record.alloc(BASE + 2 * page, page, stream=5)
    record.segment(BASE, [(page, page, "active_allocated")], stream=5, is_expandable=True)
    record.segment(BASE + 2 * page, [(page, page, "active_allocated")], stream=5, is_expandable=True)
    trace = load(record)
    assert layout(trace) == [(0, 2 * page, [(page, "live", 0), (page, "free", None)])]
    (segment,) = trace.recorded.initial
    assert (segment.kind, segment.stream, segment.is_expandable) == ("large", 1, True)


def test_a_map_in_the_middle_leaves_both_ends(record, load):
    page = 2 * MIB
    record.event("segment_map", BASE + page, page)
    record.alloc(BASE + page, 512)
    record.segment(BASE, [(3 * page, 0, "inactive")], is_expandable=True, segment_type="small")
    assert [(at, nbytes) for at, nbytes, _ in layout(load(record))] == [(0, page), (2 * page, page)]


def test_all_blocks_tile_their_segments(record, load):
    for place in range(0, 20, 3):
        record.free(BASE + place * MIB, 2 * MIB - 700)
    record.segment(BASE, [(24 * MIB, 0, "inactive")])
    for segment in load(record).recorded.initial:
        at = segment.address
        for block in segment.blocks:
            assert block.address == at
            at += block.nbytes
        assert at == segment.address + segment.nbytes
