"""Overviews of snapshots of real GPUs, compared with figures that are computed from the raw files in another way."""

import pickle

import pytest

from memlake.analysis import diff, overview

# A file without a history has no peaks; the others have.
SNAPSHOTS = {
    "bcrafton_memory_snapshot": True,
    "lfielike_my_snapshot": False,
    "niuhx_fwdbwd_100": True,
    "silmont_memory_forward_bf16_128": True,
    "wedson_medium_512_training": True,
    "yiyi_1.3b_snapshot": False,
    "zijiandu_memory": False,
}


class DataOnly(pickle.Unpickler):
    """Reads pickles that name no class or function."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def rounded(nbytes):
    return -(-nbytes // 512) * 512


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_figures_are_those_of_the_file(shared, name):
    path = shared / "snapshots" / f"{name}.pickle"
    with path.open("rb") as file:
        raw = DataOnly(file).load()
    blocks = [block for segment in raw["segments"] for block in segment["blocks"]]
    found = overview(path)
    end = found.at_end
    held = sum(segment["total_size"] for segment in raw["segments"])
    assert end.held == held
    assert end.allocated == sum(segment["allocated_size"] for segment in raw["segments"])
    assert end.external + end.cached == sum(block["size"] for block in blocks if block["state"] == "inactive")
    assert end.not_in_blocks == 0
    live = sum(rounded(block["requested_size"]) for block in blocks if block["state"] == "active_allocated")
    if not SNAPSHOTS[name]:
        assert (found.held_peak, found.peak.scope, found.peak.nbytes) == (None, "moment", live)
        return
    # Backwards from the end, so that nothing need be inferred about the beginning.
    held_peak, live_peak = held, live
    for event in reversed(raw["device_traces"][0]):
        match event["action"]:
            case "segment_alloc":
                held -= event["size"]
            case "segment_free":
                held += event["size"]
            case "alloc":
                live -= rounded(event["size"])
            case "free_requested":
                live += rounded(event["size"])
        held_peak, live_peak = max(held_peak, held), max(live_peak, live)
    assert (found.held_peak, found.peak.nbytes) == (held_peak, live_peak)
    assert sum(row.nbytes for row in found.peak) == live_peak
    assert found.reproduction.is_exact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("niuhx_fwdbwd_100", "niuhx_fwdbwd_200_mixed"),
        ("silmont_memory_forward_fp32_128", "silmont_memory_forward_bf16_128"),
        ("wedson_medium_256_training", "wedson_medium_512_training"),
        ("yiyi_1.3b_snapshot", "yiyi_oom_snapshot"),
    ],
)
def test_differences_are_those_of_the_files(shared, one, other):
    paths = [shared / "snapshots" / f"{name}.pickle" for name in (one, other)]
    found = diff(*paths)
    for path, side, nbytes in zip(paths, (found.a, found.b), (found.end.bytes_a, found.end.bytes_b), strict=True):
        with path.open("rb") as file:
            raw = DataOnly(file).load()
        blocks = [block for segment in raw["segments"] for block in segment["blocks"]]
        live = sum(rounded(block["requested_size"]) for block in blocks if block["state"] == "active_allocated")
        assert side.end_live == nbytes == live
        assert side.end_held == sum(segment["total_size"] for segment in raw["segments"])
        shown = overview(path)
        assert side.peak_live == (None if shown.peak.scope == "moment" else shown.peak.nbytes)
    for growth in filter(None, (found.peak, found.end)):
        assert sum(row.bytes_a for row in growth) == growth.bytes_a
        assert sum(row.bytes_b for row in growth) == growth.bytes_b
        assert sum(row.growth for row in growth) == sum(part.growth for part in growth.categories) == growth.growth


def test_a_call_site_that_moved_to_another_folder_and_line_is_found_in_real_files(shared):
    found = diff(*(shared / "snapshots" / f"yiyi_{name}_snapshot.pickle" for name in ("1.3b", "oom")))
    (moved,) = [row for row in found.end if row.match == "moved"]
    assert (moved.site_a.line, moved.site_b.line) == (195, 190)
    assert (moved.count_a, moved.count_b) == (778, 460)
