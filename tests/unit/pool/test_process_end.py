"""A process may end, or fork, with pools and buffers open."""

import textwrap

import pytest

import memlake
from helpers.processes import assert_ends_well, run_python

POOL = """
    import gc, os, sys, threading, atexit
    import memlake

    (gpu,) = memlake.emulate(memory="64MiB")
    first = "expandable" if gpu.features["virtual_memory"].has else "caching"
    pools = [memlake.Pool(gpu, policy) for policy in (first, "caching", "direct")]
    buffers = [pool.allocate("2MiB") for pool in pools for _ in range(2)]
    stream = gpu.create_stream()
    busy = pools[0].allocate("1MiB", stream=stream)
    busy.fill(1, stream=stream)
    busy.record_stream(gpu.default_stream)
    view = buffers[0].numpy()[5:]
"""


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "del gpu; gc.collect()",
        "del pools; gc.collect()",
        "del buffers, view, busy; gc.collect()",
        "del view; gpu.close()",
        "sys.kept = globals().copy()",
        "atexit.register(busy.close)",
        "atexit.register(lambda: pools[1].allocate(5).close())",
        "cycle = [pools, buffers]; cycle.append(cycle); del pools, buffers, cycle",
        "gate = memlake.emulator.hold(stream); busy.fill(2, stream=stream)",
        "class Late:\n    def __del__(self): buffers[3].close()\nlate = Late()",
        "recording = pools[0].record(f'/dev/shm/memlake_test_{os.getpid()}.npz'); pools[0].allocate(5).close(); "
        "recording.stop(); os.remove(recording.path)",
    ],
)
def test_a_process_ends_well_with_pools_open(ending):
    assert_ends_well(textwrap.dedent(POOL) + ending)


DAEMONS = """
    import os, sys, threading
    import memlake

    (gpu,) = memlake.emulate(memory="256MiB")
    pool = memlake.Pool(gpu)
    begun = threading.Barrier(5)

    def work():
        stream = gpu.create_stream()
        begun.wait()
        while True:
            with pool.allocate("2MiB", stream=stream) as buffer:
                buffer.fill(1, stream=stream)

    def keep(buffer):
        begun.wait()
        threading.Event().wait()

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=keep, args=[pool.allocate("2MiB")], daemon=True).start()
    begun.wait()
"""


@pytest.mark.needs("virtual_memory")
def test_a_process_with_daemon_threads_at_work_ends_and_prints_nothing():
    for _ in range(5):
        done = run_python(DAEMONS)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("virtual_memory")
def test_a_forked_child_of_a_process_with_threads_ends_and_prints_nothing():
    fork = """
    for _ in range(5):
        child = os.fork()
        if child == 0:
            sys.exit(0)  # ends as any program does
        assert os.waitpid(child, 0)[1] == 0
    """
    done = run_python(textwrap.dedent(DAEMONS) + textwrap.dedent(fork))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_forked_child_leaves_the_pool_alone():
    assert_ends_well(
        textwrap.dedent(POOL)
        + textwrap.dedent("""
        child = os.fork()
        if child == 0:
            try:
                for use in (
                    lambda: pools[0].allocate(100),
                    lambda: pools[0].allocate(100, stream=stream),
                    lambda: pools[0].trim(),
                    lambda: pools[0].stats(),
                    lambda: pools[0].check(),
                    lambda: busy.record_stream(stream),
                    lambda: pools[0].close(),
                ):
                    try:
                        use()
                    except memlake.MemlakeError as error:
                        assert "forked" in str(error) or "closed" in str(error), error
                    else:
                        raise AssertionError("a child used the pool")
                buffers[5].close()
                del view
                buffers.clear()
                del busy
                pools.clear()
                gc.collect()
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        for pool in pools:
            pool.check()
        assert pools[0].stats().num_live == 3
        """)
    )


def test_a_fork_while_another_thread_holds_the_lock_does_not_hang_the_child():
    assert_ends_well(
        textwrap.dedent(POOL)
        + textwrap.dedent("""
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                pools[2].allocate(2**20).close()

        thread = threading.Thread(target=churn)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                try:
                    pools[2].allocate(100)
                except memlake.DriverError:
                    buffers[4].close()
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        """)
    )


def test_a_recording_that_is_open_at_the_end_is_written_by_the_process_that_began_it(tmp_path):
    script = f"""
        import os, sys
        import memlake

        (gpu,) = memlake.emulate(memory="64MiB")
        pool = memlake.Pool(gpu)
        recording = pool.record({str(tmp_path / "run.npz")!r})
        pool.allocate(5).close()
        child = os.fork()
        if child == 0:
            try:
                pool.close()
            except memlake.MemlakeError:
                assert recording.is_open
                sys.exit(7)  # atexit runs here, too
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert not os.path.exists(recording.path)
        pool.allocate(6).close()
    """
    assert_ends_well(textwrap.dedent(script))
    assert len(memlake.Trace.load(tmp_path / "run.npz")) == 4
