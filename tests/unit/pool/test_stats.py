import dataclasses
import json

import pytest

import memlake

MIB = 2**20


def test_the_figures_add_up_and_follow_what_happens(gpu):
    pool = memlake.Pool(gpu, "caching")
    first, second = pool.allocate(3 * MIB), pool.allocate(1000)
    first.close()
    stats = pool.stats()
    assert stats.live + stats.pending + stats.free == stats.held == 22 * MIB
    assert (stats.requested, stats.allocated, stats.live) == (1000, 1024, 1024)
    assert (stats.requested_peak, stats.held_peak) == (3 * MIB + 1000, 22 * MIB)
    assert (stats.num_allocations, stats.num_frees, stats.num_live, stats.num_segments) == (2, 1, 1, 2)
    assert stats.largest_contiguous == 20 * MIB
    assert stats.driver_calls["cuMemAlloc"] == 2
    assert stats.modelled_driver_ms == pytest.approx(0.2)
    (of_stream,) = stats.streams
    assert (of_stream.stream, of_stream.live, of_stream.free) == (0, 1024, stats.free)
    assert stats.fragmentation_at_peak == pytest.approx(1 - (3 * MIB + 1024) / (22 * MIB))
    assert stats.gmlake_fragmentation == stats.fragmentation_at_peak
    second.close()


def test_every_figure_that_the_core_counts_is_a_field(pool):
    shown_otherwise = {"active", "allocated_at_held_peak", "largest_free", "num_retries", "modelled_us"}
    names = {field.name for field in dataclasses.fields(pool.stats())}
    assert set(pool._stats()) - names == shown_otherwise


def test_stats_are_frozen_and_become_json(pool):
    stats = pool.stats()
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.held = 5
    assert json.loads(json.dumps(stats.to_dict()))["held"] == stats.held


def test_peaks_can_be_reset(pool):
    pool.allocate("20MiB").close()
    assert pool.stats().requested_peak == 20 * MIB
    pool.reset_peaks()
    stats = pool.stats()
    assert stats.requested_peak == stats.requested == 0
    assert stats.held_peak == stats.held


def test_each_stream_is_counted(gpu):
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    one, two = pool.allocate("2MiB"), pool.allocate("3MiB", stream=stream)
    by_stream = {of.stream: of.live for of in pool.stats().streams}
    assert by_stream == {0: 2 * MIB, stream.handle: 3 * MIB}
    del one, two


def test_held_memory_is_counted_by_device(gpus):
    first, second = gpus
    with memlake.Pool(list(gpus)) as pool, pool.allocate("80MiB"):
        held_on = pool.stats().held_on
        assert held_on == {first.ordinal: 64 * MIB, second.ordinal: 16 * MIB}
        assert sum(held_on.values()) == pool.stats().held
    with memlake.Pool(second, "caching") as pool, pool.allocate("20MiB"):
        assert pool.stats().held_on == {second.ordinal: 20 * MIB}
    with memlake.Pool(first, location="host") as pool, pool.allocate("20MiB"):
        assert pool.stats().held_on == {}
        assert pool.stats().held > 0


def test_memory_that_was_spilled_is_held_on_no_device(gpu):
    with memlake.Pool(gpu, spill="host") as pool, pool.allocate("80MiB"):
        stats = pool.stats()
        assert stats.held_on == {gpu.ordinal: stats.held}
        assert stats.held_on_host == 80 * MIB - stats.held


def test_other_libraries_names(gpu):
    pool = memlake.Pool(gpu, "caching", limit="32MiB")
    kept = pool.allocate(1000)
    stats = pool.stats()
    assert stats.to_torch()["allocated_bytes.all.current"] == 1024
    assert stats.to_torch()["reserved_bytes.all.peak"] == 2 * MIB
    assert stats.to_rmm() == {"current_bytes": 1000, "current_count": 1, "peak_bytes": 1000, "total_count": 1}
    assert stats.to_cupy() == {
        "used_bytes": 1024,
        "free_bytes": 2 * MIB - 1024,
        "total_bytes": 2 * MIB,
        "get_limit": 32 * MIB,
    }
    assert stats.to_cuda() == {
        "reserved_mem_current": 2 * MIB,
        "reserved_mem_high": 2 * MIB,
        "used_mem_current": 1024,
        "used_mem_high": 1024,
    }
    kept.close()


def test_a_block_names_its_devices(gpus):
    first, second = gpus
    with memlake.Pool(list(gpus), spill="host") as pool, pool.allocate("80MiB") as both, pool.allocate("60MiB") as rest:
        blocks = {block.address: block for segment in pool.snapshot().segments for block in segment.blocks}
        for buffer in (both, rest):
            block = blocks[buffer.ptr]
            assert block.pieces == buffer.pieces
            assert sum(piece.nbytes for piece in block.pieces) == block.nbytes
        assert blocks[both.ptr].devices == (first, second)
        assert blocks[rest.ptr].devices == (second,)
        assert None in [piece.device for piece in blocks[rest.ptr].pieces]
        assert blocks[rest.ptr].on_host == 12 * MIB
        for block in blocks.values():
            assert bool(block.pieces) == (block.state in ("live", "pending", "free", "claimed"))


@pytest.mark.parametrize("policy", ["caching", "expandable", "stitch", "direct", "driver"])
def test_a_block_of_one_device_names_it(gpus, policy):
    with memlake.Pool(gpus[1], policy) as pool, pool.allocate("3MiB") as buffer:
        blocks = [block for segment in pool.snapshot().segments for block in segment.blocks]
        assert [block.devices for block in blocks if block.state == "live"] == [(gpus[1],)]
        assert {block.devices for block in blocks} <= {(gpus[1],), ()}
        assert [block.pieces[0].nbytes >= buffer.nbytes for block in blocks if block.state == "live"] == [True]


@pytest.mark.needs("second_mapping")
def test_the_views_that_stitch_unmaps_first_are_the_least_recently_used(gpu):
    pool = memlake.Pool(gpu, memlake.policies.StitchOptions(max_views=2, frag_limit="2MiB"))
    scattered = [pool.allocate("4MiB") for _ in range(15)]
    for buffer in scattered[::2]:
        buffer.close()

    def stitched(nbytes):
        buffer = pool.allocate(nbytes)
        place = buffer.ptr
        buffer.close()
        return place

    first, second = stitched("8MiB"), stitched("12MiB")
    order = pool.snapshot().least_recently_used
    assert [(idle.address, idle.nbytes, idle.stream) for idle in order] == [
        (first, 8 * MIB, 0),
        (second, 12 * MIB, 0),
    ]
    assert stitched("8MiB") == first  # now the other one was not used for longest
    assert [idle.address for idle in pool.snapshot().least_recently_used] == [second, first]
    third = stitched("16MiB")
    assert [idle.address for idle in pool.snapshot().least_recently_used] == [first, third]
    assert pool.stats().policy_counters["stitch_evictions"] == 1


def test_the_segments_that_caching_collects_are_the_least_recently_used(gpu):
    pool = memlake.Pool(gpu, "garbage_collection_threshold:0.5", limit="64MiB")
    first, second = pool.allocate("11MiB"), pool.allocate("12MiB")
    places = [first.ptr, second.ptr]
    second.close()
    third = pool.allocate("20MiB")  # age is counted in large requests
    first.close()
    assert [idle.address for idle in pool.snapshot().least_recently_used] == places[::-1]
    third.close()
    with memlake.Pool(gpu, "caching") as plain:
        plain.allocate("11MiB").close()
        assert plain.snapshot().least_recently_used == ()


def test_a_snapshot_shows_every_block(gpu):
    pool = memlake.Pool(gpu, "expandable")
    stream = gpu.create_stream()
    kept = pool.allocate("3MiB", stream=stream)
    snapshot = pool.snapshot()
    (segment,) = snapshot.segments
    assert segment.is_expandable
    assert not segment.is_small
    assert [block.state for block in segment.blocks] == ["live", "free", "unmapped"]
    assert segment.blocks[0].address == kept.ptr
    assert segment.blocks[0].requested == 3 * MIB
    assert segment.blocks[0].stream == stream.handle
    assert sum(block.nbytes for block in segment.blocks) == segment.nbytes
    assert segment.held == pool.stats().held == snapshot.total("live") + snapshot.total("free")
    assert len(snapshot) == 3
    assert snapshot.table["nbytes"].tolist() == [block.nbytes for block in segment.blocks]
    assert "1 segments" in repr(snapshot)


def test_a_snapshot_is_readable_as_one_of_pytorchs(gpu, tmp_path):
    import pickle

    pool = memlake.Pool(gpu, "caching")
    kept = [pool.allocate("2MiB"), pool.allocate(100)]
    snapshot = pool.snapshot().to_torch()
    assert sum(s["total_size"] for s in snapshot["segments"]) == pool.stats().held
    assert sum(s["allocated_size"] for s in snapshot["segments"]) == pool.stats().allocated
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
    trace = memlake.Trace.load(tmp_path / "snapshot.pickle")
    assert trace.num_allocations == len(kept)


def test_an_empty_pool_has_an_empty_snapshot(pool):
    assert pool.snapshot().segments == ()
    assert pool.stats().fragmentation_at_peak == 0


def test_a_state_that_no_block_has_is_refused(gpu):
    snapshot = memlake.Pool(gpu).snapshot()
    with pytest.raises(memlake.ConfigError, match="no block has the state 'bogus'; there are free, live"):
        snapshot.total("bogus")


def test_the_repr_of_a_snapshot_makes_no_objects(gpu):
    pool = memlake.Pool(gpu, "caching")
    kept = [pool.allocate("2MiB"), pool.allocate(100)]
    snapshot = pool.snapshot()
    assert repr(snapshot) == f"PoolSnapshot(2 segments, {len(snapshot)} blocks)"
    assert "segments" not in vars(snapshot)
    del kept
