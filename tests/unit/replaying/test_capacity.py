import re
from pathlib import Path

import numpy as np
import pytest

import memlake
from memlake.replaying.capacity import known_capacity
from memlake.replaying.gpus import GPUS, find_gpu
from memlake.trace import Op, Recorded, RecordedEvent

GIB = 2**30


def test_a_trace_that_tells_nothing_is_asked_about(moe):
    assert known_capacity(moe) is None
    with pytest.raises(memlake.ConfigError) as refused:
        memlake.replay(moe, "lake")
    assert "how much memory has the device?" in str(refused.value)
    assert '"80GiB"' in str(refused.value)
    assert "53.58 GiB are live" in str(refused.value)


def test_metadata_may_tell(make_trace):
    rows = [(Op.ALLOCATE, 0, 1)]
    assert memlake.replay(make_trace(rows, metadata={"capacity": 8 * GIB})).capacity == 8 * GIB
    for nonsense in (True, -1, "8GiB", 2**60, None):
        assert known_capacity(make_trace(rows, metadata={"capacity": nonsense})) is None


def test_a_recorded_failure_gives_the_capacity_away(make_trace):
    events = (
        RecordedEvent(0, "segment_alloc", 0x1000, 6 * GIB, 0),
        RecordedEvent(0, "segment_map", 0x1000, 4 * GIB, 0),
        RecordedEvent(0, "segment_free", 0x1000, 3 * GIB, 0),
        RecordedEvent(0, "segment_unmap", 0x1000, 1 * GIB, 0),
        RecordedEvent(1, "oom", 0, 4 * GIB, 0, device_free=GIB),
    )
    recorded = Recorded(np.zeros(1, np.uint64), events)
    assert known_capacity(make_trace([(Op.ALLOCATE, 0, 1)], recorded=recorded)) == 7 * GIB
    without = Recorded(np.zeros(1, np.uint64), events[:-1])
    assert known_capacity(make_trace([(Op.ALLOCATE, 0, 1)], recorded=without)) is None


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_each_gpu_is_found_and_has_a_source(gpu):
    assert find_gpu(gpu.name.upper()) is gpu
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", gpu.source)
    # No GPU of the table has less than 90 % of the memory in its name, or more than all of it.
    if told := re.search(r"(\d+)gb", gpu.name):
        assert 0.9 < gpu.nbytes / (int(told[1]) * GIB) <= 1


def test_a_number_in_a_text_may_be_a_gpu_but_an_int_is_bytes(moe):
    assert memlake.replay(moe, "caching", "4090").capacity == 2361 * GIB // 100 - 512 * 2**20
    with pytest.raises(memlake.ConfigError, match="between 2 MiB and 16 TiB"):
        memlake.replay(moe, "caching", 4090)


def test_the_table_of_the_documentation_is_that_of_the_code():
    page = Path(__file__).parents[3].joinpath("docs/reference/capacities.md").read_text()
    for gpu in GPUS:
        where = f"https://github.com/{gpu.source.replace('#', '/issues/')}"
        assert f"| `{gpu.name}` | {gpu.total.removesuffix('GiB')} | [{gpu.source}]({where}) |" in page
