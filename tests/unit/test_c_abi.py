"""The C ABI as Python programs meet it: through ctypes, beside memlake's own pools, in one process."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memlake
from helpers.c_header import HEADER, declared_functions
from helpers.processes import assert_ends_well, run_python
from memlake.policies import CachingOptions, ExpandableOptions, policy

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "c"
MIB = 2**20


@pytest.fixture(scope="module")
def lake():
    library = ctypes.CDLL(memlake.native_library())
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.memlake_last_error.restype = ctypes.c_char_p
    library.memlake_pool_create.restype = pointer
    library.memlake_pool_create.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.memlake_pool_allocate.restype = pointer
    library.memlake_pool_allocate.argtypes = [pointer, size, pointer]
    library.memlake_torch_malloc.restype = pointer
    library.memlake_torch_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, pointer]
    library.memlake_torch_free.restype = None
    library.memlake_torch_free.argtypes = [pointer, ctypes.c_ssize_t, ctypes.c_int, pointer]
    for name, arguments in {
        "memlake_pool_destroy": [pointer],
        "memlake_pool_free": [pointer, pointer],
        "memlake_pool_trim": [pointer, size],
        "memlake_torch_set_pool": [ctypes.c_int, pointer],
    }.items():
        getattr(library, name).argtypes = arguments
    return library


def last_error(lake):
    return lake.memlake_last_error().decode()


@pytest.fixture
def gpu():
    with memlake.emulate(memory="256MiB", backing="none") as devices:
        yield devices[0]


@pytest.fixture(scope="module")
def graphs(lake):
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    lake.memlake_pool_try_allocate_in_graph.restype = pointer
    for name, more in {
        "memlake_pool_use_graph": [],
        "memlake_pool_set_captured": [ctypes.c_int],
        "memlake_pool_try_allocate_in_graph": [size, pointer],
        "memlake_pool_release_graph": [ctypes.c_int],
        "memlake_pool_empty_graph": [],
    }.items():
        getattr(lake, name).argtypes = [pointer, number, number, *more]
    return lake


def test_every_function_of_the_header_is_in_the_library(lake):
    declared = declared_functions(HEADER.read_text())
    assert len(declared) == 54
    for name in declared:
        assert getattr(lake, name)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_the_library_exports_the_header_and_what_its_own_module_needs():
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", memlake.native_library()], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    public = {name for name in exported if not re.match(r"_Z\w*7memlake|MEMLAKE_", name)}
    assert public == set(declared_functions(HEADER.read_text()))


def test_the_header_states_the_version_of_the_library(lake):
    assert f"#define MEMLAKE_ABI_VERSION {lake.memlake_abi_version()}\n" in HEADER.read_text()


def test_a_pool_of_python_is_the_same_pool_in_c(lake, gpu):
    with memlake.Pool(gpu) as pool:
        address = lake.memlake_pool_allocate(pool.native_handle, 3 * MIB, None)
        buffer = pool.allocate(MIB)
        stats = pool.stats()
        assert stats.requested == 4 * MIB
        assert lake.memlake_pool_free(pool.native_handle, buffer.ptr) == -4  # it is the buffer's
        assert lake.memlake_pool_destroy(pool.native_handle) == -4
        assert "close it where it was made" in last_error(lake)
        buffer.close()
        with pytest.raises(memlake.InvalidFree, match="1 live"):
            pool.close()
        assert lake.memlake_pool_free(pool.native_handle, address) == 0
        pool.check()
        handle = pool.native_handle
        assert handle == pool.native_handle
    assert lake.memlake_pool_allocate(handle, MIB, None) is None
    assert last_error(lake) == "the pool is closed"
    del pool
    assert lake.memlake_pool_allocate(handle, MIB, None) is None
    assert last_error(lake) == "the pool was destroyed"


def test_a_pool_of_python_serves_torchs_functions_and_lives_on(lake, gpu):
    pool = memlake.Pool(gpu)
    assert lake.memlake_torch_set_pool(5, pool.native_handle) == 0
    address = lake.memlake_torch_malloc(MIB, 5, None)
    assert pool.stats().num_allocations == 1
    del pool
    lake.memlake_torch_free(address, MIB, 5, None)
    address = lake.memlake_torch_malloc(MIB, 5, None)
    assert address
    lake.memlake_torch_free(address, MIB, 5, None)
    assert lake.memlake_torch_set_pool(5, None) == 0


def test_recording_a_pool_writes_down_what_c_did(lake, gpu, tmp_path):
    with memlake.Pool(gpu) as pool:
        with pool.record(tmp_path / "trace.npz"):
            lake.memlake_pool_free(pool.native_handle, lake.memlake_pool_allocate(pool.native_handle, 5000, None))
        trace = memlake.Trace.load(tmp_path / "trace.npz")
    assert list(trace.bytes[:1]) == [5000]
    assert len(trace.op) == 2


def test_both_see_one_emulated_driver(lake):
    pool = lake.memlake_pool_create(b"driver:emulated,memory:96MiB,backing:none", 0)
    assert pool, last_error(lake)
    held = lake.memlake_pool_allocate(pool, MIB, None)
    assert any(device.total == 96 * MIB for device in memlake.emulator.ledger().devices)
    lake.memlake_pool_free(pool, held)
    assert lake.memlake_pool_destroy(pool) == 0


CONFIGURATIONS = [
    "",
    "max_split_size_mb:64",
    "max_split_size_mb:20",
    "max_split_size_mb:19",
    "max_split_size_mb:-1",
    "max_split_size_mb:1.5",
    "large_segment_size_mb:10",
    "large_segment_size_mb:11,max_split_size_mb:11",
    "max_non_split_rounding_mb:5",
    "large_segment_size_mb:64,max_non_split_rounding_mb:32",
    "garbage_collection_threshold:0.6",
    "garbage_collection_threshold:0",
    "garbage_collection_threshold:1",
    "garbage_collection_threshold:1e-3",
    "per_process_memory_fraction:0.5",
    "per_process_memory_fraction:1.1",
    "policy:lake,per_process_memory_fraction:0.5",
    "policy:expandable,per_process_memory_fraction:0.5",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:5",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "roundup_power2_divisions:[]",
    "roundup_power2_divisions:[3:1]",
    "roundup_power2_divisions:[0:1]",
    "roundup_power2_divisions:[256:1,]",
    "expandable_segments:True",
    "expandable_segments:true",
    "expandable_segments:False,max_split_size_mb:32,",
    " max_split_size_mb : 64 ",
    "max_split_size_mb",
    "max_split_size_mb:",
    "max_split_size_mb:64;",
    "no_such_key:1",
    ",max_split_size_mb:64",
    "max_split_size_mb:19,max_split_size_mb:64",
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_both_readers_of_torchs_options_agree(lake, text):
    try:
        options = policy(text) if text else CachingOptions()
    except memlake.ConfigError:
        options = None
    conf = f"driver:emulated,memory:1GiB,backing:none,{text}".rstrip(",") if text else "driver:emulated"
    pool = lake.memlake_pool_create(conf.encode(), 0)
    assert (pool is not None) == (options is not None), last_error(lake)
    if pool is not None:
        assert isinstance(options, CachingOptions | ExpandableOptions)
        assert lake.memlake_pool_destroy(pool) == 0


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "del pool",
        "lake.memlake_torch_free(address, 4096, 0, None)\npool.close()",
        "import atexit; atexit.register(lambda: lake.memlake_torch_free(address, 4096, 0, None))",
        "class Late:\n    def __del__(self): lake.memlake_torch_free(address, 4096, 0, None)\nlate = Late()",
        "sys.kept = globals().copy()",
        "threading.Thread(target=work, daemon=True).start()",
        "gpus.close()\nlake.memlake_torch_free(address, 4096, 0, None)\nassert b'closed' in lake.memlake_last_error()",
    ],
)
def test_a_process_ends_well_with_torchs_memory_open(ending):
    done = run_python(PROCESS + ending)
    # The one sentence about a closed device is meant; what daemon threads hold is never dropped, and nanobind says so.
    meant = ("nanobind: ", " - ", "See https://nanobind", "memlake: memlake_torch_free: the pool's device is closed")
    said = [line for line in done.stderr.splitlines() if not line.startswith(meant)]
    assert (done.returncode, said) == (0, [])


PROCESS = """
import ctypes, sys, threading
import memlake
lake = ctypes.CDLL(memlake.native_library())
lake.memlake_last_error.restype = ctypes.c_char_p
lake.memlake_torch_malloc.restype = ctypes.c_void_p
lake.memlake_torch_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
lake.memlake_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
gpus = memlake.emulate(memory="64MiB")
pool = memlake.Pool(gpus)
assert lake.memlake_torch_set_pool(0, ctypes.c_void_p(pool.native_handle)) == 0
address = lake.memlake_torch_malloc(4096, 0, None)
def work():
    while True:
        lake.memlake_torch_free(lake.memlake_torch_malloc(4096, 0, None), 4096, 0, None)
"""


def test_the_library_can_be_loaded_before_memlake_is_imported():
    path = memlake.native_library()
    assert_ends_well(f"""
        import ctypes
        lake = ctypes.CDLL({path!r})
        lake.memlake_pool_create.restype = ctypes.c_void_p
        pool = lake.memlake_pool_create(b"driver:emulated,memory:64MiB", 0)
        import memlake
        assert pool and len(memlake.emulator.ledger().devices) == 1
        assert memlake.Pool(memlake.emulate(memory="64MiB")).native_handle
    """)


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="no C compiler, or no make")
def test_the_example_in_c_builds_and_runs(tmp_path):
    for file in EXAMPLE.iterdir():
        if file.is_file() and file.name in ("pool.c", "Makefile"):
            shutil.copy(file, tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(["make", "-C", str(tmp_path), f"PYTHON={sys.executable}"], check=True, env=environment)
    done = subprocess.run([str(tmp_path / "pool")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "reused: yes" in done.stdout
    assert "40 MiB more: no memory for 40 MiB" in done.stdout


def test_free_memory_of_a_graph_pool_that_nothing_has_captured_makes_room_for_a_larger_request(graphs):
    for is_captured in (1, 0):
        pool = graphs.memlake_pool_create(b"driver:emulated,memory:256MiB,backing:none,limit:80MiB", 0)
        assert graphs.memlake_pool_use_graph(pool, 0, 9) == 0
        assert graphs.memlake_pool_set_captured(pool, 0, 9, is_captured) == 0
        blocks = [graphs.memlake_pool_try_allocate_in_graph(pool, 0, 9, 20 * MIB, None) for _ in range(4)]
        for block in (blocks[0], blocks[2]):
            assert graphs.memlake_pool_free(pool, block) == 0
        larger = graphs.memlake_pool_try_allocate_in_graph(pool, 0, 9, 40 * MIB, None)
        assert (larger is None) == bool(is_captured)
        for block in (blocks[1], blocks[3], larger):
            assert graphs.memlake_pool_free(pool, block) == 0
        assert graphs.memlake_pool_release_graph(pool, 0, 9, 0) == 0
        assert graphs.memlake_pool_empty_graph(pool, 0, 9) == 0
        assert graphs.memlake_pool_destroy(pool) == 0
