import contextlib
import gc
import random

import pytest

import memlake
from memlake import ConfigError, InvalidFree, emulator
from memlake.trace import Op

MIB = 2**20
CALLS = ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease", "cuMemAlloc", "cuMemFree", "cuMemSetAccess"]


def run_at_random(pool, gpu, seed):
    """Requests of all sizes on three streams, uses elsewhere, frees here and there, trims, failures."""
    rng = random.Random(seed)
    streams = [gpu.default_stream, gpu.create_stream(), gpu.create_stream()]
    live = []
    for _ in range(400):
        deed = rng.random()
        stream = rng.choice(streams)
        if deed < 0.5:
            try:
                live.append(pool.allocate(1 + rng.randrange(2 ** rng.randrange(9, 25)), stream=stream))
            except memlake.OutOfMemory:
                live = live[::2]
        elif deed < 0.75 and live:
            live.pop(rng.randrange(len(live))).close()
        elif deed < 0.85 and live:
            buffer = rng.choice(live)
            buffer.fill(1, stream=stream)
            buffer.record_stream(stream)
        elif deed < 0.92 and live:
            live.pop(rng.randrange(len(live))).close(stream=stream)
        elif deed < 0.94:
            # Trimming spares memory in use, and a trace does not tell which that was. They may wait for each other.
            for busy in streams * len(streams):
                emulator.step(busy, 10_000)
            pool.trim(keep=rng.randrange(100) * MIB)
        elif deed < 0.96 and pool.policy.name != "direct":
            with contextlib.suppress(memlake.OutOfMemory):
                pool.reserve(rng.randrange(8) * MIB, stream=stream)
        else:
            emulator.step(stream, rng.randrange(4))
    for stream in streams:
        emulator.step(stream, 10_000)
    return live


@pytest.mark.parametrize(
    "policy",
    [
        "lake,aliasing:none",
        # A driver that refuses the level once makes a call more than the replay does.
        pytest.param("lake,aliasing:prefix", marks=pytest.mark.needs("second_mapping", "partial_mapping")),
        "caching",
        "expandable",
        "direct",
        "max_split_size_mb:21",
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_recording_replays_to_the_same_result(memlake_emulator, tmp_path, policy, seed):
    (gpu,) = memlake_emulator.emulate(memory="96MiB", backing="none", streams="manual")
    pool = memlake.Pool(gpu, policy)
    with pool.record(tmp_path / "run.npz") as recording:
        live = run_at_random(pool, gpu, seed)
    trace = memlake.Trace.load(tmp_path / "run.npz")
    assert trace == recording.trace
    stats = pool.stats()
    again = memlake.replay(trace, policy, capacity="96MiB", events="recorded", go_on=True)
    assert (again.peak_requested, again.peak_allocated, again.peak_held) == (
        stats.requested_peak,
        stats.allocated_peak,
        stats.held_peak,
    )
    assert (again.num_ooms, again.num_alloc_retries) == (stats.num_ooms, stats.num_alloc_retries)
    assert again.fits == (stats.num_ooms == 0)
    # A recording does not tell when a pool learned that a stream had passed, so old second mappings may end later.
    calls = [name for name in CALLS if name != "cuMemUnmap" or stats.aliasing != "prefix"]
    more = {name: stats.driver_calls.get(name, 0) - again.driver_calls.get(name, 0) for name in calls}
    # A request of a live pool that had to wait begins anew, and may ask the driver for new memory once more in vain.
    for creating in ("cuMemCreate", "cuMemAlloc"):
        assert 0 <= more.pop(creating) <= stats.host_waits
    assert set(more.values()) == {0}
    del live


def test_what_is_live_comes_first(gpu, tmp_path):
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    kept = [pool.allocate(100), pool.allocate(200, stream=stream)]
    kept[0].record_stream(stream)
    with pool.record(tmp_path / "run.txt"):
        kept[0].close()
    trace = memlake.Trace.load(tmp_path / "run.txt")
    assert [(row.op, row.id, row.bytes) for row in trace][:4] == [
        (Op.ALLOCATE, 0, 100),
        (Op.RECORD_STREAM, 0, 0),
        (Op.ALLOCATE, 1, 200),
        (Op.FREE, 0, 0),
    ]


def test_a_recording_says_where_it_comes_from(gpu, tmp_path):
    pool = memlake.Pool(gpu, "caching", limit="32MiB")
    recording = pool.record(tmp_path / "run.npz")
    pool.allocate(5).close()
    trace = recording.stop()
    assert trace.metadata["policy"] == "caching"
    assert trace.metadata["capacity"] == 64 * MIB
    assert trace.metadata["limit"] == 32 * MIB
    assert trace.time is not None
    assert memlake.replay(trace, "caching").outcome == "ok"  # the capacity is in the trace
    with pytest.raises(InvalidFree, match="stopped before"):
        recording.stop()


def test_closing_the_pool_stops_its_recording(gpu, tmp_path):
    pool = memlake.Pool(gpu)
    recording = pool.record(tmp_path / "run.npz")
    pool.allocate(5).close()
    pool.close()
    assert not recording.is_open
    assert len(memlake.Trace.load(tmp_path / "run.npz")) == 2


def test_a_pool_records_once_at_a_time(gpu, tmp_path):
    pool = memlake.Pool(gpu)
    with pool.record(tmp_path / "one.npz"), pytest.raises(ConfigError, match="recording already"):
        pool.record(tmp_path / "two.npz")
    with pool.record(tmp_path / "two.npz"):
        pass
    assert len(memlake.Trace.load(tmp_path / "two.npz")) == 0


@pytest.mark.parametrize("name", ["run.pickle", "run", "nowhere/run.npz"])
def test_a_file_that_cannot_be_written_is_refused_at_once(gpu, tmp_path, name):
    pool = memlake.Pool(gpu)
    with pytest.raises(ConfigError, match=r"must end in|does not exist"):
        pool.record(tmp_path / name)
    pool.record(tmp_path / "good.npz").stop()


def test_a_close_that_is_refused_leaves_the_recording_alone(gpu, tmp_path):
    pool = memlake.Pool(gpu)
    recording = pool.record(tmp_path / "run.npz")
    buffer = pool.allocate(5)
    with pytest.raises(InvalidFree, match="live buffers"):
        pool.close()
    assert recording.is_open
    buffer.close()
    pool.close()
    assert not recording.is_open
    assert [row.op for row in memlake.Trace.load(tmp_path / "run.npz")] == [Op.ALLOCATE, Op.FREE]


def test_a_folder_and_a_missing_pyarrow_are_found_out_at_once(gpu, tmp_path, monkeypatch):
    pool = memlake.Pool(gpu)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        pool.record(tmp_path / "folder.npz")
    monkeypatch.setattr("memlake.pool.recording.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs pyarrow"):
        pool.record(tmp_path / "run.parquet")


def test_a_recording_that_is_dropped_is_written_with_a_warning(gpu, tmp_path):
    pool = memlake.Pool(gpu)
    recording = pool.record(tmp_path / "run.npz")
    pool.allocate(5).close()
    del pool, recording
    with pytest.warns(ResourceWarning, match="was dropped and not stopped"):
        gc.collect()
    assert len(memlake.Trace.load(tmp_path / "run.npz")) == 2
