"""`memlake.allocate` remembers the pools that it found. What it remembers must be what `memlake.current_pool` says."""

import contextlib
import gc
import threading
import weakref

import pytest

import memlake
from helpers.processes import assert_ends_well
from memlake import ConfigError

# The programs name streams by handles. They are processes of their own: in this one another name of the emulator is
# found as libcuda.so.1, and a handle would be a stream of that driver.
PRELUDE = """
import random
import memlake

class Theirs:  # a stream of another library
    def __init__(self, handle):
        self.handle = handle
    def __cuda_stream__(self):
        return (0, self.handle)

def gets(pool, **form):
    before = pool.stats().num_live
    with memlake.allocate(4096, **form):
        return pool.stats().num_live == before + 1

def forms_of(gpu, stream):
    theirs = Theirs(stream.handle)
    return [
        {"device": gpu}, {"device": gpu.ordinal}, {"stream": stream}, {"stream": theirs}, {"stream": stream.handle},
        {"stream": gpu.default_stream}, {"device": gpu, "stream": stream}, {"device": gpu, "stream": theirs},
        {"device": gpu, "stream": stream.handle}, {"device": gpu.ordinal, "stream": stream},
    ]

def refusal(**form):
    try:
        memlake.allocate(100, **form)
    except memlake.ConfigError as error:
        return str(error)
    raise AssertionError(form)

gpus = memlake.emulate(2, "64MiB")
streams = [gpu.create_stream() for gpu in gpus]
"""

ANY_ORDER = """
forms = [(gpu, form) for gpu, stream in zip(gpus, streams) for form in forms_of(gpu, stream)]
forms += [(gpus[0], {})] * 4
for seed in range(20):
    rng = random.Random(seed)
    pools = [memlake.Pool(gpus[0]), memlake.Pool(gpus[1]), memlake.Pool(gpus)]
    blocks = []
    for _ in range(300):
        choice = rng.random()
        if choice < 0.8:
            gpu, form = rng.choice(forms)
            assert gets(memlake.current_pool(gpu), **form), (seed, form)
        elif choice < 0.85:
            memlake.set_current_pool(rng.choice([*pools, *(memlake.default_pool(gpu) for gpu in gpus)]))
        elif choice < 0.9:
            blocks.append(memlake.use_pool(rng.choice(pools)))
            blocks[-1].__enter__()
        elif choice < 0.95:
            if blocks:
                blocks.pop().__exit__(None, None, None)
        else:
            place = rng.randrange(3)
            pools[place].close()
            pools[place] = memlake.Pool(gpus[place] if place < 2 else gpus)
    while blocks:
        blocks.pop().__exit__(None, None, None)
    for pool in pools:
        pool.close()
"""

OF_TWO_DEVICES = """
both, alone = memlake.Pool(gpus), memlake.Pool(gpus[1])
with memlake.use_pool(both):
    for form in forms_of(gpus[1], streams[1]):
        assert gets(both, **form)
        assert gets(both, **form)
    with memlake.use_pool(alone):  # the pool of both devices knows the stream, and is current for the first device
        for form in forms_of(gpus[1], streams[1]):
            assert gets(both, device=gpus[0])
            assert gets(alone, **form)
            assert gets(alone, **form)
"""

NO_MATCH = """
for gpu, stream in zip(gpus, streams):
    memlake.allocate(100, device=gpu, stream=stream).close()
theirs = Theirs(streams[1].handle)
for stream in (streams[1], theirs, streams[1].handle):
    for _ in range(3):
        memlake.allocate(100, stream=stream).close()
        assert "is no stream of" in refusal(device=gpus[0], stream=stream)
"""

DEFAULT_STREAMS = """
for handle in (0, 1, Theirs(0)):
    for _ in range(2):
        memlake.allocate(100, device=gpus[1]).close()
        with memlake.allocate(100, stream=handle) as buffer:
            assert buffer.device == gpus[0]
"""


@pytest.mark.parametrize("program", [ANY_ORDER, OF_TWO_DEVICES, NO_MATCH, DEFAULT_STREAMS])
def test_every_form_gets_memory_of_the_current_pool(program):
    assert_ends_well(PRELUDE + program)


def test_a_block_that_has_ended_keeps_no_pool(gpu):
    pool = memlake.Pool(gpu)
    with memlake.use_pool(pool):
        for _ in range(2):
            memlake.allocate(100, device=gpu).close()
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None


def test_a_pool_that_was_replaced_is_not_kept(gpu):
    pool = memlake.Pool(gpu)
    memlake.set_current_pool(pool)
    for _ in range(2):
        memlake.allocate(100, device=gpu).close()
    memlake.set_current_pool(memlake.default_pool(gpu))
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None


def test_a_pool_may_be_closed_and_replaced_while_threads_allocate(gpu):
    stop = threading.Event()
    errors = []

    def work():
        stream = gpu.create_stream()
        while not stop.is_set():
            for form in ({"device": gpu}, {"stream": stream}, {"device": gpu, "stream": stream}):
                try:
                    memlake.allocate(4096, **form).close()
                except memlake.ClosedError:
                    pass  # the pool was closed between the search and the request
                except BaseException as error:
                    errors.append(error)
                    stop.set()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        pool = memlake.Pool(gpu)
        memlake.set_current_pool(pool)
        while True:
            with contextlib.suppress(memlake.InvalidFree):
                pool.close()
                break
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_the_arguments_are_checked_as_those_of_a_python_function(gpu):
    pool = memlake.Pool(gpu)
    for call, message in (
        (lambda: pool.allocate(), "missing a required argument: 'nbytes'"),
        (lambda: pool.allocate(1, 2), "takes 1 positional argument but 2 were given"),
        (lambda: pool.allocate(1, strem=None), "unexpected keyword argument 'strem'"),
        (lambda: pool.allocate(1, nbytes=2), "multiple values for argument 'nbytes'"),
        (lambda: memlake.allocate(), "missing a required argument: 'nbytes'"),
        (lambda: memlake.allocate(1, None), "takes 1 positional argument but 2 were given"),
        (lambda: memlake.allocate(1, shareable=True), "unexpected keyword argument 'shareable'"),
        (lambda: pool.allocate(1).close(None), "takes 0 positional arguments but 1 was given"),
        (lambda: pool.allocate(1).close(stram=None), "unexpected keyword argument 'stram'"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ConfigError, match=r"not True or False: .*single_handle=1"):
        pool.allocate(1, single_handle=1)
    pool.allocate(nbytes=1, **{"".join(["str", "eam"]): gpu.default_stream}).close()
    pool.close()
