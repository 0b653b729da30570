import random
import subprocess
import sys
import threading

import pytest

import memlake
from memlake import InvalidFree


def test_threads_share_a_pool(memlake_emulator):
    # More than eight threads can have live at once: running out is not what is tested here.
    (gpu,) = memlake_emulator.emulate(memory="2GiB", backing="none")
    pool = memlake.Pool(gpu)
    problems = []

    def work(seed):
        try:
            rng = random.Random(seed)
            stream = gpu.create_stream()
            live = []
            for _ in range(300):
                if rng.random() < 0.6 or not live:
                    buffer = pool.allocate(rng.randrange(1, 2**21), stream=rng.choice([None, stream]))
                    buffer.fill(seed, stream=buffer.stream)
                    live.append(buffer)
                else:
                    live.pop(rng.randrange(len(live))).close()
                if len(live) > 20:
                    live.clear()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        pool.check()
        pool.stats()
        pool.snapshot()
    for thread in threads:
        thread.join()
    assert problems == []
    pool.check()
    assert pool.stats().num_live == 0


def test_only_one_thread_closes_a_buffer(pool):
    for _ in range(50):
        buffer = pool.allocate(100)
        barrier = threading.Barrier(4)
        refused = []

        def close(buffer=buffer, barrier=barrier, refused=refused):
            barrier.wait()
            try:
                buffer.close()
            except InvalidFree:
                refused.append(1)

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 3
    assert pool.stats().num_frees == 50


def test_a_host_function_may_use_python_while_a_pool_waits(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    gate = memlake.emulator.hold(stream)
    buffer = pool.allocate("40MiB", stream=stream)
    buffer.fill(1, stream=stream)
    buffer.close()
    helper = threading.Thread(target=gate.open)  # needs the GIL while the pool waits for the stream
    waiting = threading.Event()

    def allocate():
        waiting.set()
        pool.allocate("40MiB").close()

    thread = threading.Thread(target=allocate)
    thread.start()
    waiting.wait()
    helper.start()
    helper.join()
    thread.join()
    pool.check()


@pytest.mark.parametrize("policy", ["caching", "expandable", "direct"])
def test_a_pool_closed_by_another_thread_is_a_clear_error(gpu, policy):
    pool = memlake.Pool(gpu, policy)
    seen = []

    def use():
        try:
            while True:
                pool.allocate(100).close()
        except memlake.ClosedError as error:
            seen.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    while True:
        try:
            pool.close()
            break
        except InvalidFree:
            continue
    thread.join()
    assert seen == ["the pool is closed"]


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_a_thread_that_waits_for_a_stream_holds_no_lock(memlake_emulator, policy):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    pool = memlake.Pool(gpu, policy)
    if policy == "lake":
        pool.reuse_allow_internal_dependencies = False
    busy, other = gpu.create_stream(), gpu.create_stream()
    pool.allocate(4096).close()
    buffer = pool.allocate("40MiB", stream=other)
    gate = memlake.emulator.hold(busy)
    buffer.fill(1, stream=busy)
    buffer.record_stream(busy)
    buffer.close()
    thread = threading.Thread(target=lambda: pool.allocate("50MiB", stream=other).close())
    thread.start()
    while pool.stats().host_waits == 0:
        pass
    pool.allocate(4096).close()
    pool.check()
    gate.open()
    thread.join()
    pool.check()


WAITING = """
import os, signal, threading
import memlake
(gpu,) = memlake.emulate(memory="64MiB")
pool = memlake.Pool(gpu, "expandable")
stream = gpu.create_stream()
gate = memlake.emulator.hold(stream)
with pool.allocate("40MiB", stream=stream) as buffer:
    buffer.fill(1, stream=stream)

def interrupt():
    while pool.stats().host_waits == 0:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    pool.allocate("50MiB")
except KeyboardInterrupt:
    print("interrupted")
pool.check()
gate.open()
pool.allocate("50MiB").close()
pool.check()
"""


@pytest.mark.needs("virtual_memory")
def test_a_wait_of_the_main_thread_can_be_interrupted_by_a_signal():
    result = subprocess.run([sys.executable, "-c", WAITING], check=True, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("interrupted\n", "")


SYNCHRONIZING = """
import os, signal, sys, threading
import memlake
(gpu,) = memlake.emulate(memory="64MiB")
stream = gpu.create_stream()
gate = memlake.emulator.hold(stream)
buffer = memlake.Pool(gpu).allocate(100, stream=stream)
buffer.fill(1, stream=stream)
event = stream.record()
form = {"stream": stream.sync, "event": event.sync, "device": gpu.synchronize}[sys.argv[1]]
waits = "cuCtxSynchronize" if sys.argv[1] == "device" else "cuEventSynchronize"

def interrupt():
    while waits not in counts.calls:
        pass
    os.kill(os.getpid(), signal.SIGINT)

with memlake.driver.counting(gpu) as counts:
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        form()
    except KeyboardInterrupt:
        print("interrupted")
    thread.join()
if sys.argv[1] == "stream":
    stream.close()  # the wait goes on in the background, and does not need the stream
gate.open()
if sys.argv[1] != "stream":
    form()
gpu.synchronize()
seen = bytearray(100)
buffer.copy_to(seen)
assert seen == bytes([1] * 100)
assert not gpu.ledger().violations
"""


@pytest.mark.parametrize("form", ["stream", "event", "device"])
def test_a_synchronization_of_the_main_thread_can_be_interrupted_by_a_signal(form):
    result = subprocess.run([sys.executable, "-c", SYNCHRONIZING, form], capture_output=True, text=True)
    assert (result.stdout, result.stderr, result.returncode) == ("interrupted\n", "", 0)
