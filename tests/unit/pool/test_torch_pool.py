"""pool_of_torch(): the Pool of a pool that serves a device of PyTorch's. Each test has a process of its own."""

import shutil
import subprocess
import sys
import textwrap

import pytest

START = """
import ctypes, gc, os, sys
import memlake
from memlake.pool.torch_pool import pool_of_torch

lake = ctypes.CDLL(str(memlake.native_library()))
pointer, size = ctypes.c_void_p, ctypes.c_size_t
lake.memlake_torch_pool.restype = pointer
lake.memlake_torch_pool.argtypes = [ctypes.c_int, ctypes.c_char_p]
lake.memlake_pool_allocate.restype = pointer
lake.memlake_pool_allocate.argtypes = [pointer, size, pointer]
lake.memlake_torch_release.argtypes = [pointer, ctypes.c_int, pointer]
lake.memlake_torch_set_pool.argtypes = [ctypes.c_int, pointer]
lake.memlake_pool_enable_peer.argtypes = [pointer, ctypes.c_int]
lake.memlake_torch_fraction.argtypes = [ctypes.c_double, ctypes.c_int]
lake.memlake_last_error.restype = ctypes.c_char_p
CONF = b"policy:lake,driver:emulated,devices:2,memory:256MiB,backing:none,limit:128MiB"
"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pool_that_c_made_is_a_real_pool():
    run("""
        assert pool_of_torch(0) is None
        handle = lake.memlake_torch_pool(0, CONF)
        pool = pool_of_torch(0)
        assert isinstance(pool, memlake.Pool)
        assert pool_of_torch(0) is pool
        assert pool_of_torch(1) is None
        memory = lake.memlake_pool_allocate(handle, 10 << 20, None)
        stats = pool.stats()
        assert (stats.allocated, stats.num_allocations, stats.limit) == (10 << 20, 1, 128 << 20)
        assert pool.limit == 128 << 20
        assert pool.policy.name == "lake"
        assert repr(pool).startswith("Pool(")
        pool.check()
        assert memory in [block.address for segment in pool.snapshot().segments for block in segment.blocks]
        with pool.allocate("1MiB") as buffer:
            assert pool.stats().num_live == 2
        assert lake.memlake_torch_release(memory, 0, None) == 1
        assert pool.trim() > 0
        """)


def test_closing_it_is_refused_and_dropping_it_changes_nothing():
    run("""
        handle = lake.memlake_torch_pool(0, CONF)
        try:
            pool_of_torch(0).close()
        except memlake.InvalidFree as error:
            assert "serves PyTorch" in str(error)
        else:
            raise AssertionError("it was closed")
        with pool_of_torch(0) as pool:
            pass
        assert pool.is_open
        del pool
        gc.collect()
        memory = lake.memlake_pool_allocate(handle, 1 << 20, None)
        assert memory
        assert pool_of_torch(0).stats().num_live == 1
        assert lake.memlake_torch_release(memory, 0, None) == 1
        """)


def test_what_c_functions_set_later_is_seen():
    run("""
        handle = lake.memlake_torch_pool(0, CONF)
        pool = pool_of_torch(0)
        assert not pool.peer_accessible_by
        assert lake.memlake_pool_enable_peer(handle, 1) == 0
        lake.memlake_torch_fraction(0.25, 0)
        pool = pool_of_torch(0)
        assert len(pool.peer_accessible_by) == 1
        assert pool.stats().limit == 64 << 20
        """)


def test_a_pool_that_python_gave_is_the_same_object():
    run("""
        with memlake.emulate(memory="256MiB", backing="none") as devices:
            mine = memlake.Pool(devices[0], "expandable")
            assert lake.memlake_torch_set_pool(0, mine.native_handle) == 0
            assert pool_of_torch(0) is mine
        """)


def test_a_pool_whose_object_was_dropped_is_found_again_as_it_was():
    run("""
        (gpu,) = memlake.emulate(memory="256MiB", backing="none")
        options = memlake.policy("expandable,max_split_size_mb:64")
        for device, (policy, arguments) in enumerate([
            (options, {"limit": "128MiB", "max_size": "192MiB", "release_threshold": "16MiB"}),
            ("lake", {"location": "host", "max_size": "1GiB"}),
            ("lake", {"handle_type": "posix_fd"}),
            ("driver", {"release_threshold": 0}),
        ]):
            def tell(pool):
                return (pool.policy, pool.devices, pool.location, pool.handle_type, pool.limit, pool.max_size,
                        pool.release_threshold, pool.stats().limit)
            mine = memlake.Pool(gpu, policy, **arguments)
            assert lake.memlake_torch_set_pool(device, mine.native_handle) == 0
            before = tell(mine)
            del mine
            gc.collect()
            again = pool_of_torch(device)
            assert tell(again) == before, (tell(again), before)
            assert (again.decay, again.on_failure, again.is_default) == (None, (), False)
            if policy is options:
                again.allocate("32MiB").close()
                assert again.stats().held == 40 << 20
                gpu.synchronize()
                assert again.stats().held == 20 << 20  # a page of the policy above the threshold
        """)


def test_a_device_that_cannot_be_is_refused():
    run("""
        for device in (-1, 64):
            try:
                pool_of_torch(device)
            except memlake.ConfigError as error:
                assert "there is no device" in str(error)
            else:
                raise AssertionError(device)
        """)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_emulator_is_refused_where_pytorch_for_cuda_is_loaded(tmp_path):
    library = tmp_path / "libc10_cuda.so"
    (tmp_path / "empty.c").write_text("int c10_cuda_stand_in;\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-soname,libc10_cuda.so", "-o", library, tmp_path / "empty.c"], check=True
    )
    run(f"""
        torch = ctypes.CDLL({str(library)!r})
        assert lake.memlake_torch_pool(0, CONF) is None
        assert b"driver:emulated" in lake.memlake_last_error()
        with memlake.emulate(memory="256MiB", backing="none") as devices:
            mine = memlake.Pool(devices[0])
            assert lake.memlake_torch_set_pool(0, mine.native_handle) == -1
            with mine.allocate("1MiB"):  # pools for other programs work
                pass
        """)
