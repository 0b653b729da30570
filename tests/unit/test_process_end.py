"""A process may end at any moment, with anything open, and after fork a child leaves its parent's devices alone."""

import textwrap

import pytest

from helpers.processes import assert_ends_well, run_python

EVERYTHING = """
    import gc, os, sys, threading
    import memlake
    from memlake import emulator, vmm

    gpus = a, b = memlake.emulate(devices=2, memory="64MiB")
    chunk = vmm.create(a, "2MiB")
    addresses = vmm.reserve(a, "4MiB")
    mapping = addresses.map(chunk, access=gpus)
    segment = vmm.Segment.create(b, "8MiB", access=gpus)
    fused = vmm.stitch(segment.chunks[:2])
    left, right = vmm.Segment.create(a, "4MiB").split("2MiB")
    stream = a.create_stream()
    event = stream.record()
    view = mapping.numpy()[3:]
"""


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "del gpus, a, b; gc.collect()",
        "del a, b, gpus, stream, addresses, chunk, segment; gc.collect()",
        "del view; gpus.close()",
        "del view; a.close(); del mapping, left",
        "builtins = __import__('builtins'); builtins.kept = (fused, mapping, view, stream, gpus)",
        "sys.kept = globals().copy()",
        "cycle = [fused, mapping]; cycle.append(cycle); del fused, mapping, cycle",
        "thread = threading.Thread(target=lambda: segment.fill(1, stream=stream)); thread.start()",
        "gate = emulator.hold(stream); segment.fill(1, stream=stream); emulator.launch(stream, 'x', reads=[mapping])",
        "import atexit; atexit.register(fused.close); atexit.register(lambda: mapping.fill(2))",
        "import atexit; atexit.register(gpus.__exit__, None, None, None); del view",
        "class Late:\n    def __del__(self): fused.close()\nlate = Late()",
    ],
)
def test_a_process_ends_well_whatever_is_open(ending):
    assert_ends_well(textwrap.dedent(EVERYTHING) + ending)


def assert_does_not_crash(program):
    """For processes that end under their own daemon threads: what those hold is never destroyed."""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize(
    "ending",
    [
        "threading.Thread(target=stream.sync, daemon=True).start()",
        "gate = emulator.hold(stream); threading.Thread(target=stream.sync, daemon=True).start()",
        "gate = emulator.hold(stream); threading.Thread(target=b.synchronize, daemon=True).start(); gpus = None",
    ],
)
def test_a_process_does_not_crash_under_a_daemon_thread_that_waits(ending):
    assert_does_not_crash(textwrap.dedent(EVERYTHING) + ending)


def test_a_process_does_not_crash_under_daemon_threads_at_work():
    assert_does_not_crash("""
        import threading, memlake
        from memlake import vmm
        (gpu,) = memlake.emulate(memory="64MiB")
        def work():
            while True:
                with vmm.Segment.create(gpu, "2MiB") as segment:
                    segment.fill(1)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
    """)


def test_an_unhandled_error_is_all_that_is_said():
    done = run_python("""
        import memlake
        from memlake import vmm
        (gpu,) = memlake.emulate(memory="64MiB")
        segment = vmm.Segment.create(gpu, "2MiB")
        vmm.create(gpu, "1TiB")
    """)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "cuMemCreate failed with CUDA_ERROR_OUT_OF_MEMORY (2)" in done.stderr.splitlines()[-1]


FORK = """
    import gc, os, warnings
    import memlake
    from memlake import driver, emulator, vmm

    warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, for forking beside threads
    (gpu,) = memlake.emulate(memory="64MiB")
    segment = vmm.Segment.create(gpu, "4MiB")
    segment.fill(7)
    stream = gpu.create_stream()
    everything = [vmm.create(gpu, "2MiB"), vmm.reserve(gpu, "2MiB"), vmm.stitch(segment.chunks), stream.record()]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            CHILD
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The parent goes on as if nothing had been.
    assert segment.numpy()[0] == 7
    stream.sync()
    everything[2].close()
    segment.close()
    everything.clear()
    assert gpu.free_memory == gpu.total_memory
"""


DROPS_EVERYTHING = """
with driver.counting(gpu) as counts:
    everything.clear()
    del segment, stream
    gc.collect()
assert counts.total == 0
"""

CREATES = """
try:
    vmm.create(gpu, "2MiB")
except memlake.DriverError as error:
    assert (error.code, error.kind) == (3, "driver_gone")
    assert "spawn" in str(error)
else:
    raise AssertionError
"""

CLOSES = """
for thing in (everything[2], stream, everything[0]):
    try:
        thing.close()
    except memlake.DriverError as error:
        assert error.kind == "driver_gone"
"""


@pytest.mark.parametrize("child", [DROPS_EVERYTHING, CREATES, CLOSES], ids=["drops", "creates", "closes"])
def test_a_forked_child_leaves_its_parents_devices_alone(child):
    assert_ends_well(textwrap.dedent(FORK).replace("        CHILD\n", textwrap.indent(child, " " * 8)))


def test_a_forked_child_may_end_like_any_process():
    assert_ends_well("""
        import os, sys, warnings
        import memlake
        from memlake import vmm
        warnings.simplefilter("ignore", DeprecationWarning)
        (gpu,) = memlake.emulate(memory="64MiB")
        segment = vmm.Segment.create(gpu, "4MiB")
        stream = gpu.create_stream()
        child = os.fork()
        if child == 0:
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        segment.fill(1)
    """)


def test_another_process_imports_what_this_one_exports():
    assert_ends_well("""
        import multiprocessing, os, socket
        import memlake
        from memlake import vmm

        PROGRAM = '''
        import os, socket, sys, memlake
        from memlake import vmm
        with socket.socket(fileno=int(sys.argv[1])) as here:
            _, (descriptor,), _, _ = socket.recv_fds(here, 1, 1)
            (gpu,) = memlake.emulate(memory="64MiB")
            with vmm.import_chunk(gpu, descriptor, "2MiB") as chunk, vmm.stitch([chunk]) as segment:
                os.close(descriptor)
                assert (segment.numpy() == 42).all()
                segment.fill(43)
        '''
        import subprocess, sys, textwrap
        (gpu,) = memlake.emulate(memory="64MiB")
        chunk = vmm.create(gpu, "2MiB", exportable=True)
        segment = vmm.stitch([chunk])
        segment.fill(42)
        here, there = socket.socketpair()
        program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(there.fileno())]
        with here, there, subprocess.Popen(program, pass_fds=[there.fileno()]) as other:
            descriptor = chunk.export()
            socket.send_fds(here, [b"x"], [descriptor])
            os.close(descriptor)
            assert other.wait() == 0
        assert (segment.numpy() == 43).all()
    """)
