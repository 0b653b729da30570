"""Random traces under random settings, against torch's own library; skipped where no build of it is at hand.

MEMLAKE_PEERLAB names the folder of the build, MEMLAKE_EXACT_SEEDS how many traces to try.
"""

import os
import random

import pytest

import memlake
from helpers.torch_figures import differences, replayed
from helpers.torch_library import TorchTrace, replay_program
from memlake import Trace
from memlake.trace import Op

MIB = 2**20
CAPACITY = 1024 * MIB
ROWS = 500
SEEDS = range(int(os.environ.get("MEMLAKE_EXACT_SEEDS", "60")))


@pytest.fixture(scope="module")
def program():
    found = replay_program()
    if found is None:
        pytest.skip("no build of torch's allocator: MEMLAKE_PEERLAB does not name a folder with build/replay")
    return found


def random_conf(chance):
    entries = [f"expandable_segments:{chance.random() < 0.5}"]
    large = 20
    if chance.random() < 0.3:
        large = chance.choice((12, 32, 64))
        entries.append(f"large_segment_size_mb:{large}")
    if chance.random() < 0.4:
        entries.append(f"max_split_size_mb:{chance.choice((64, 100, 200))}")
        if chance.random() < 0.5:
            entries.append(f"max_non_split_rounding_mb:{chance.choice((64, 128))}")
    if chance.random() < 0.3:
        entries.append(f"roundup_power2_divisions:{chance.choice(('2', '8', '[2:4,16:2,>:8]', '[64:8,256:4]'))}")
    if chance.random() < 0.4:
        entries.append(f"per_process_memory_fraction:{chance.choice((0.7, 0.9, 0.97))}")
        if chance.random() < 0.7:
            entries.append(f"garbage_collection_threshold:{chance.choice((0.3, 0.6, 0.9))}")
    return ",".join(entries)


def random_trace(chance):
    """Sizes of all classes on three streams, used on others, at times given back, close to what the device has."""
    rows: list[tuple[int, int, int, int]] = []
    live: dict[int, int] = {}
    streams = chance.choice((1, 1, 3))
    most = CAPACITY * chance.choice((0.6, 0.8, 0.93))
    count = 0
    while len(rows) < ROWS:
        nbytes = chance.choice((
            chance.randint(1, 4096),
            chance.randint(1, 2 * MIB),
            chance.randint(1, 30) * MIB + chance.choice((0, 1, 512)),
            chance.randint(20, 150) * MIB,
            chance.randint(100, 400) * MIB + chance.choice((0, 123)),
        ))  # fmt: skip
        if live and (sum(live.values()) + nbytes > most or chance.random() < 0.42):
            id = chance.choice(list(live))
            if streams > 1 and chance.random() < 0.2:
                rows.append((Op.RECORD_STREAM, id, 0, chance.randrange(streams)))
            del live[id]
            rows.append((Op.FREE, id, 0, 0))
        elif sum(live.values()) + nbytes <= most:
            rows.append((Op.ALLOCATE, count, nbytes, chance.randrange(streams)))
            live[count] = nbytes
            count += 1
        if chance.random() < 0.004:
            rows.append((Op.EMPTY_CACHE, 0, 0, 0))
    return Trace(*zip(*rows, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_trace_gives_the_librarys_figures(program, tmp_path, seed):
    chance = random.Random(seed)
    conf = random_conf(chance)
    trace = random_trace(chance)
    text = TorchTrace(trace, tmp_path / "trace.txt")
    for goes_on in (False, True):
        expected = text.figures(program, CAPACITY, conf, goes_on=goes_on)
        ours = replayed(trace, CAPACITY, memlake.policy(conf), goes_on)
        assert differences(ours, expected) == {}, conf
