"""What it costs a process to be seen by `memlake top`: CPU time of its publisher at ten refreshes a second."""

import os
import subprocess
import sys
import tempfile
import threading
import time

import memlake
from benchmarks.figures import Figure, Figures, Goal

NUM_POOLS = 4
NUM_STREAMS = 4
NUM_BLOCKS = 1000
REFRESHES_PER_SECOND = 10
SECONDS = 5.0
PASSES = 3

# Another process reads, as `memlake top` does. It says when it begins, and how often it has read when its stdin ends.
READER = """
import select, sys
from memlake.publishing import Reader
with Reader() as reader:
    assert len(reader.read()[0].pools) == int(sys.argv[2])
    print("reading", flush=True)
    count = 0
    while not select.select([sys.stdin], [], [], float(sys.argv[1]))[0]:
        assert reader.read()[0].pools is not None
        count += 1
    print(count)
"""


def measure() -> Figures:
    """CPU time per refresh with some pools of some streams each; what that is at ten refreshes a second."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        (device,) = memlake.emulate(memory="64GiB", backing="none")
        pools = [memlake.Pool(device) for _ in range(NUM_POOLS)]
        streams = [device.create_stream() for _ in range(NUM_STREAMS)]
        buffers = [pool.allocate("8MiB", stream=stream) for pool in pools for stream in streams]
        publisher = memlake.publish()
        passes = [_seconds_per_refresh(1 / REFRESHES_PER_SECOND) for _ in range(PASSES)]
        # Without a pause nothing else gets the caches of the processor: what the work itself costs.
        warm = [_seconds_per_refresh(0) for _ in range(PASSES)]
        # The figures of streams are sums over all blocks.
        buffers += [pool.allocate("4MiB") for pool in pools for _ in range(NUM_BLOCKS)]
        with_blocks = [_seconds_per_refresh(1 / REFRESHES_PER_SECOND) for _ in range(PASSES)]
        publisher.close()
        for buffer in buffers:
            buffer.close()
        for pool in pools:
            pool.close()
    figures = {
        "share of a core": Figure.median([one * REFRESHES_PER_SECOND * 100 for one in passes], "%"),
        "CPU time per refresh": Figure.median([one * 1e6 for one in passes], "us"),
        "CPU time per refresh without a pause": Figure.median([one * 1e6 for one in warm], "us"),
        f"CPU time per refresh with {NUM_BLOCKS} blocks in each pool": Figure.median(
            [one * 1e6 for one in with_blocks], "us"
        ),
        "processes that wait for a core": Figure(os.getloadavg()[0], ""),
    }
    return Figures("publishing", figures, Goal("share of a core", 0.1))


def _seconds_per_refresh(interval: float) -> float:
    command = [sys.executable, "-c", READER, str(interval), str(NUM_POOLS)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdout.readline()
    begin = _cpu_of_publisher()
    time.sleep(SECONDS)
    used = _cpu_of_publisher() - begin
    count, _ = reader.communicate()
    assert reader.returncode == 0
    return used / int(count)


def _cpu_of_publisher() -> float:
    """Seconds of CPU that the publisher's threads have used so far."""
    numbers = [thread.ident for thread in threading.enumerate() if thread.name == "memlake-publish" and thread.ident]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(number)) for number in numbers)
