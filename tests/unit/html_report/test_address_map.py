"""Address maps: the spans of a page describe exactly the blocks of the replay at each moment."""

import numpy as np
import pytest

from memlake.html_report.address_map import MIXED, SEVERAL, address_map_of
from memlake.html_report.blobs import UNIT
from memlake.html_report.split_over_time import split_over_time
from memlake.policies import resolve_policy
from memlake.replaying.event_mode import EventMode
from memlake.replaying.moments import STATES
from memlake.replaying.running import run
from memlake.trace import Op

GIB = 2**30
ROWS = np.arange(0, 16_000, 500, dtype=np.uint64)


def moments_of(trace, policy, rows, capacity=80 * GIB):
    return run(trace, resolve_policy(policy), capacity, EventMode("immediate"), None, moments=rows)


def spans_at(drawn, moment):
    """The spans of a moment as (place, nbytes, state)."""
    columns = drawn.columns
    place = np.cumsum(columns["address"].astype(np.uint64))
    shown = (columns["first"] <= moment) & (moment <= columns["last"])
    return list(
        zip(place[shown].tolist(), columns["nbytes"][shown].tolist(), columns["state"][shown].tolist(), strict=True)
    )


@pytest.mark.parametrize("policy", ["caching", "expandable", "lake", "stitch", "direct"])
def test_the_pieces_of_a_moment_are_the_blocks_of_the_pool(moe, policy):
    result = moments_of(moe, policy, ROWS)
    found = result.moments
    assert found.rows.tolist() == ROWS.tolist()
    drawn = address_map_of(found, np.zeros(moe.num_allocations, np.uint32), 10**9)
    assert drawn.grain == 0
    for moment in range(len(found)):
        inside = slice(int(found.starts[moment]), int(found.starts[moment + 1]))
        blocks = zip(found.column("nbytes")[inside].tolist(), found.column("state")[inside].tolist(), strict=True)
        spans = spans_at(drawn, moment)
        assert [(-(-nbytes // UNIT), state) for nbytes, state in blocks] == [span[1:] for span in spans]
        ends = [place + nbytes for place, nbytes, _ in spans]
        assert all(end <= begin for end, (begin, _, _) in zip(ends, spans[1:], strict=False))


@pytest.mark.parametrize("policy", ["caching", "expandable", "lake", "direct"])
def test_the_parts_of_a_moment_are_what_the_pool_holds(moe, policy):
    result = moments_of(moe, policy, ROWS)
    split = split_over_time(result.moments)
    held = sum(split[name] for name in ("requested", "rounding", "pending", "external", "cached"))
    again = run(moe, result.options, result.capacity, EventMode("immediate"), None, samples=len(moe)).timeline
    # The timeline has the state before its row together with the most during it, so it is compared where nothing moves.
    after = again.held[ROWS.astype(np.int64) + 1].astype(np.float64)
    assert (held <= after).all()
    assert held.max() == after[held.argmax()] or policy == "direct"


def test_small_blocks_are_joined_when_there_are_too_many(moe):
    found = moments_of(moe, "caching", ROWS).moments
    exact = address_map_of(found, np.zeros(moe.num_allocations, np.uint32), 10**9)
    coarse = address_map_of(found, np.zeros(moe.num_allocations, np.uint32), 9 * len(exact) // 10)
    assert coarse.grain > 0
    assert len(coarse) <= 9 * len(exact) // 10
    for moment in (0, 10, len(found) - 1):
        assert sum(span[1] for span in spans_at(coarse, moment)) == pytest.approx(
            sum(span[1] for span in spans_at(exact, moment)), rel=1e-3
        )


def test_joined_blocks_of_different_states_are_mixed(make_trace):
    rows = [(Op.ALLOCATE, number, 0.25) for number in range(8)] + [(Op.FREE, number, 0) for number in range(0, 8, 2)]
    trace = make_trace(rows)
    found = moments_of(trace, "caching", np.array([11], np.uint64)).moments
    drawn = address_map_of(found, np.arange(8, dtype=np.uint32), 2)
    assert MIXED in drawn.columns["state"].tolist()
    assert SEVERAL in drawn.columns["site"].tolist()


def test_a_replay_that_fails_has_no_later_moments(scattered):
    result = moments_of(scattered, "caching", np.arange(len(scattered), dtype=np.uint64), 100 * 2**20)
    assert result.failure.row == 6
    assert result.moments.rows.tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_blocks_know_their_allocation(make_trace):
    trace = make_trace([(Op.ALLOCATE, 0, 0), (Op.ALLOCATE, 1, 20), (Op.ALLOCATE, 2, 30)])
    found = moments_of(trace, "caching", np.array([2], np.uint64)).moments
    # A request of 0 bytes gets no memory, so the second request is the first allocation.
    drawn = address_map_of(found, np.array([7, 8], np.uint32), 100)
    live = drawn.columns["state"] == STATES.index("live")
    sizes = dict(zip(drawn.columns["site"][live].tolist(), drawn.columns["nbytes"][live].tolist(), strict=True))
    assert sizes == {7: 20 * 2**20 // UNIT, 8: 30 * 2**20 // UNIT}
