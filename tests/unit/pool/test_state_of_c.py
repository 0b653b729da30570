"""What C functions change about a pool, Python sees: a row for every function of ``memlake.h``."""

import ctypes

import pytest

import memlake
from helpers.c_header import HEADER, declared_functions, last_error, typed_library
from memlake import emulator
from memlake.pool.stats import PoolStats
from memlake.pool.torch_pool import pool_of_torch
from memlake.torch.c_functions import PoolCounts, counts_of

pytestmark = pytest.mark.needs("virtual_memory")

MIB = 2**20
TORCH_DEVICE = 9
C = typed_library()

CHANGES_NO_POOL = {
    "memlake_abi_version": "it reads a number of the library",
    "memlake_last_error": "it reads the calling thread's last failure",
    "memlake_last_error_code": "it reads the calling thread's last failure",
    "memlake_pool_create": "it makes a pool that no Python object has",
    "memlake_pool_stats": "it reads figures",
    "memlake_pool_counts": "it reads figures",
    "memlake_pool_graph_stats": "it reads figures",
    "memlake_pool_visit_blocks": "it reads the blocks",
    "memlake_pool_visit_graph_blocks": "it reads the blocks",
    "memlake_pool_observe": "it tells a C function of events; no figure and no setting of the pool changes",
    "memlake_torch_can_throw": "it asks which libraries the process has loaded",
    "memlake_torch_init": "it reads MEMLAKE_CONF",
    "memlake_torch_base": "it reads where a segment lies",
    "memlake_torch_find": "it reads a block",
    "memlake_torch_find_in_graph": "it reads a block",
    "memlake_torch_graph_uses": "it reads a figure",
    "memlake_torch_export": "it gives descriptors of chunks to other processes; the memory stays as it is",
    "memlake_torch_import": "it maps memory of another process, which belongs to no pool",
    "memlake_torch_end_import": "it unmaps memory of another process, which belongs to no pool",
}

ROWS = {}


def row(function):
    """A row shows, for a pool, that Python sees what the C function of the row's name changes."""
    ROWS[function.__name__] = function
    return function


def without_row(header):
    return sorted(set(declared_functions(header)) - {*ROWS, *CHANGES_NO_POOL})


def ok(code):
    assert code == 0, last_error()


@pytest.fixture
def pool(gpus):
    """A pool with a limit, which serves a device of PyTorch's."""
    with memlake.Pool(gpus[0], limit="48MiB") as pool:
        ok(C.memlake_torch_set_pool(TORCH_DEVICE, pool.native_handle))
        yield pool
        ok(C.memlake_torch_set_pool(TORCH_DEVICE, None))
        pool.check()


def allocated(pool, size=4 * MIB):
    address = C.memlake_pool_allocate(pool.native_handle, size, None)
    assert address, last_error()
    return address


def freed(pool, size=4 * MIB):
    ok(C.memlake_pool_free(pool.native_handle, allocated(pool, size)))


def in_graph(pool, graph, size=4 * MIB):
    """Memory of a graph pool that one graph uses."""
    ok(C.memlake_pool_use_graph(pool.native_handle, *graph.id))
    address = C.memlake_pool_try_allocate_in_graph(pool.native_handle, *graph.id, size, None)
    assert address, last_error()
    return address


@row
def memlake_pool_destroy(pool):
    assert C.memlake_pool_destroy(pool.native_handle) == -4
    assert pool.is_open
    assert "closed" not in repr(pool)


@row
def memlake_pool_allocate(pool):
    address = allocated(pool)
    assert (pool.stats().live, pool.used_mem_current, pool.stats().num_live) == (4 * MIB, 4 * MIB, 1)
    assert address in [block.address for segment in pool.snapshot().segments for block in segment.blocks]
    assert "held=4 MiB" in repr(pool)
    with pytest.raises(memlake.InvalidFree, match="1 live"):
        pool.close()
    ok(C.memlake_pool_free(pool.native_handle, address))


@row
def memlake_pool_try_allocate(pool):
    address = C.memlake_pool_try_allocate(pool.native_handle, 4 * MIB, None)
    assert pool.stats().live == 4 * MIB
    assert C.memlake_pool_try_allocate(pool.native_handle, 60 * MIB, None) is None
    assert pool.stats().num_ooms == 0
    ok(C.memlake_pool_free(pool.native_handle, address))


@row
def memlake_pool_free(pool):
    address = allocated(pool)
    ok(C.memlake_pool_free(pool.native_handle, address))
    assert (pool.stats().live, pool.stats().free, pool.stats().num_frees) == (0, 4 * MIB, 1)


@row
def memlake_pool_free_on(pool):
    stream = pool.device.create_stream()
    address = allocated(pool)
    with emulator.hold(stream):
        ok(C.memlake_pool_free_on(pool.native_handle, address, stream.handle))
        assert (pool.stats().live, pool.stats().pending) == (0, 4 * MIB)
    stream.sync()


@row
def memlake_pool_record_stream(pool):
    stream = pool.device.create_stream()
    address = allocated(pool)
    with emulator.hold(stream):
        ok(C.memlake_pool_record_stream(pool.native_handle, address, stream.handle))
        ok(C.memlake_pool_free(pool.native_handle, address))
        assert pool.stats().pending == 4 * MIB
    stream.sync()


@row
def memlake_pool_trim(pool):
    freed(pool)
    ok(C.memlake_pool_trim(pool.native_handle, 0))
    assert (pool.stats().held, pool.reserved_mem_current) == (0, 0)


@row
def memlake_pool_reset_peaks(pool):
    freed(pool)
    ok(C.memlake_pool_reset_peaks(pool.native_handle))
    assert (pool.stats().allocated_peak, pool.used_mem_high) == (0, 0)


@row
def memlake_pool_reset_totals(pool):
    ok(C.memlake_pool_count_by_size(pool.native_handle))
    freed(pool)
    ok(C.memlake_pool_reset_totals(pool.native_handle))
    assert counts_of(pool.native_handle).to_torch()["allocation"]["all"]["allocated"] == 0
    assert pool.stats().num_allocations == 1  # PoolStats counts from the pool's beginning


@row
def memlake_pool_count_by_size(pool):
    with pytest.raises(memlake.ConfigError, match="does not count by size"):
        counts_of(pool.native_handle)
    ok(C.memlake_pool_count_by_size(pool.native_handle))
    address = allocated(pool)
    assert counts_of(pool.native_handle).to_torch()["allocation"]["large_pool"]["current"] == 1
    ok(C.memlake_pool_free(pool.native_handle, address))


@row
def memlake_pool_count_outside(pool):
    ok(C.memlake_pool_count_by_size(pool.native_handle))
    outside = PoolCounts(struct_size=ctypes.sizeof(PoolCounts))
    outside.allocation[0].current = 7
    ok(C.memlake_pool_count_outside(pool.native_handle, ctypes.byref(outside)))
    freed(pool)
    assert counts_of(pool.native_handle).to_torch()["allocation"]["all"]["peak"] == 8


@row
def memlake_pool_enable_peer(pool):
    (peer,) = pool.device.peers
    own = C.memlake_torch_pool(TORCH_DEVICE, None)  # counts devices as PyTorch does
    ok(C.memlake_pool_enable_peer(own, TORCH_DEVICE + peer.ordinal - pool.device.ordinal))
    assert list(pool.peer_accessible_by) == [peer]
    with pool.allocate("4MiB") as buffer, peer.create_stream() as stream:
        buffer.fill(1, stream=stream)
        stream.sync()
    pool.peer_accessible_by = []
    assert not pool.peer_accessible_by


@row
def memlake_pool_use_graph(pool):
    graph = pool.graph_pool()
    ok(C.memlake_pool_use_graph(pool.native_handle, *graph.id))
    assert graph.use_count == 1
    chosen = (graph.id[0] + 1, graph.id[1] + 1)
    ok(C.memlake_pool_use_graph(pool.native_handle, *chosen))
    assert pool.graph_pool().id != chosen
    graph.close()


@row
def memlake_pool_begin_graph(pool):
    graph = pool.graph_pool()
    ok(C.memlake_pool_begin_graph(pool.native_handle, *graph.id, None, None))
    assert graph.use_count == 1
    with pool.allocate("4MiB"):
        assert graph.live == 4 * MIB
    for end in (graph.close, graph.release):
        with pytest.raises(memlake.InvalidFree, match="memlake_pool_begin_graph"):
            end()
    assert graph.is_open
    ok(C.memlake_pool_end_graph(pool.native_handle, *graph.id))
    graph.close()


@row
def memlake_pool_end_graph(pool):
    graph = pool.graph_pool()
    with graph:
        ok(C.memlake_pool_end_graph(pool.native_handle, *graph.id))
        with pool.allocate("4MiB"):
            assert graph.live == 0
        graph.release()  # no request goes there any more
    graph.close()


@row
def memlake_pool_release_graph(pool):
    graph = pool.graph_pool()
    with graph:
        pass
    ok(C.memlake_pool_release_graph(pool.native_handle, *graph.id, 1))
    assert graph.use_count == 0
    with pytest.raises(memlake.InvalidFree):
        graph.release()
    graph.close()


@row
def memlake_pool_try_allocate_in_graph(pool):
    graph = pool.graph_pool()
    address = in_graph(pool, graph)
    assert (graph.live, graph.live_peak, pool.stats().graph_live) == (4 * MIB,) * 3
    assert "4 MiB live" in repr(graph)
    ok(C.memlake_pool_free(pool.native_handle, address))
    graph.close()


@row
def memlake_pool_restore_graph(pool):
    graph = pool.graph_pool()
    in_graph(pool, graph)
    ok(C.memlake_pool_restore_graph(pool.native_handle, *graph.id, None, 0, None, None))
    assert (graph.live, pool.stats().num_live) == (0, 0)
    graph.close()


@row
def memlake_pool_set_captured(pool):
    graph = pool.graph_pool()
    ok(C.memlake_pool_free(pool.native_handle, in_graph(pool, graph)))
    C.memlake_torch_empty_cache()
    assert graph.held > 0
    ok(C.memlake_pool_set_captured(pool.native_handle, *graph.id, 0))
    C.memlake_torch_empty_cache()
    assert (graph.held, pool.stats().graph_held) == (0, 0)
    graph.close()


@row
def memlake_pool_empty_graph(pool):
    graph = pool.graph_pool()
    ok(C.memlake_pool_free(pool.native_handle, in_graph(pool, graph)))
    ok(C.memlake_pool_release_graph(pool.native_handle, *graph.id, 0))
    assert pool.stats().graph_held > 0
    ok(C.memlake_pool_empty_graph(pool.native_handle, *graph.id))
    assert pool.stats().graph_held == 0
    graph.close()


@row
def memlake_torch_malloc(pool):
    address = C.memlake_torch_malloc(4 * MIB, TORCH_DEVICE, None)
    assert pool.stats().live == 4 * MIB
    C.memlake_torch_free(address, 4 * MIB, TORCH_DEVICE, None)


@row
def memlake_torch_malloc_or_throw(pool):
    address = C.memlake_torch_malloc_or_throw(4 * MIB, TORCH_DEVICE, None)
    assert pool.stats().live == 4 * MIB
    assert counts_of(pool.native_handle).to_torch()["allocation"]["all"]["current"] == 1
    C.memlake_torch_free(address, 4 * MIB, TORCH_DEVICE, None)


@row
def memlake_torch_free(pool):
    address = C.memlake_torch_malloc(4 * MIB, TORCH_DEVICE, None)
    C.memlake_torch_free(address, 4 * MIB, TORCH_DEVICE, None)
    assert (pool.stats().live, pool.stats().free) == (0, 4 * MIB)


@row
def memlake_torch_release(pool):
    address = C.memlake_torch_malloc(4 * MIB, TORCH_DEVICE, None)
    assert C.memlake_torch_release(address, TORCH_DEVICE, None) == 1
    assert (pool.stats().live, pool.stats().free) == (0, 4 * MIB)


@row
def memlake_torch_record_stream(pool):
    stream = pool.device.create_stream()
    address = C.memlake_torch_malloc(4 * MIB, TORCH_DEVICE, None)
    with emulator.hold(stream):
        C.memlake_torch_record_stream(address, stream.handle)
        C.memlake_torch_free(address, 4 * MIB, TORCH_DEVICE, None)
        assert pool.stats().pending == 4 * MIB
    stream.sync()


@row
def memlake_torch_empty_cache(pool):
    freed(pool)
    C.memlake_torch_empty_cache()
    assert pool.stats().held == 0


@row
def memlake_torch_set_pool(pool):
    assert pool._serves_torch
    assert pool_of_torch(TORCH_DEVICE) is pool
    ok(C.memlake_torch_set_pool(TORCH_DEVICE, None))
    assert not pool._serves_torch
    assert pool_of_torch(TORCH_DEVICE) is None


@row
def memlake_torch_pool(pool):
    handle = C.memlake_torch_pool(TORCH_DEVICE, None)
    address = C.memlake_pool_allocate(handle, 4 * MIB, None)
    assert pool.stats().live == 4 * MIB
    ok(C.memlake_pool_free(handle, address))


@row
def memlake_torch_fraction(pool):
    C.memlake_torch_fraction(0.25, TORCH_DEVICE)
    assert (pool.limit, pool.max_size, pool.stats().limit) == (48 * MIB, None, 16 * MIB)
    assert pool.stats().to_cupy()["get_limit"] == 16 * MIB
    with pytest.raises(memlake.OutOfMemory) as caught:
        pool.allocate("20MiB")
    assert (caught.value.limit, caught.value.binds) == (16 * MIB, "memory_fraction")
    pool.limit = "8MiB"
    C.memlake_torch_fraction(0.5, TORCH_DEVICE)  # leaves the limit of the pool as it is
    assert (pool.limit, pool.stats().limit) == (8 * MIB, 8 * MIB)
    pool.limit = None
    assert pool.stats().limit == 32 * MIB
    C.memlake_torch_fraction(1, TORCH_DEVICE)
    assert pool.stats().limit is None


@row
def memlake_torch_functions(pool):
    allocate, free = ctypes.c_void_p(), ctypes.c_void_p()
    ok(C.memlake_torch_functions(pool.native_handle, ctypes.byref(allocate), ctypes.byref(free)))
    address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(allocate.value)(
        4 * MIB, 0, None
    )
    assert pool.stats().live == 4 * MIB
    free_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    free_function(free.value)(address, 4 * MIB, 0, None)
    assert pool.stats().live == 0
    ok(C.memlake_torch_end_functions(allocate))


@row
def memlake_torch_end_functions(pool):
    allocate, free = ctypes.c_void_p(), ctypes.c_void_p()
    ok(C.memlake_torch_functions(pool.native_handle, ctypes.byref(allocate), ctypes.byref(free)))
    ok(C.memlake_torch_end_functions(allocate))
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(allocate.value)
    assert function(4 * MIB, 0, None) is None
    assert pool.stats().num_allocations == 0


@row
def memlake_torch_use_graph(pool):
    graph = pool.graph_pool()
    ok(C.memlake_torch_use_graph(TORCH_DEVICE, *graph.id))
    assert graph.use_count == 1
    graph.close()


@row
def memlake_torch_begin_graph(pool):
    graph = pool.graph_pool()
    ok(C.memlake_torch_begin_graph(TORCH_DEVICE, *graph.id, None, None))
    with pytest.raises(memlake.InvalidFree, match="memlake_pool_begin_graph"):
        graph.close()
    ok(C.memlake_torch_end_graph(TORCH_DEVICE, *graph.id))
    graph.close()


@row
def memlake_torch_end_graph(pool):
    graph = pool.graph_pool()
    with graph:
        ok(C.memlake_torch_end_graph(TORCH_DEVICE, *graph.id))
        with pool.allocate("4MiB"):
            assert graph.live == 0
    graph.close()


@row
def memlake_torch_release_graph(pool):
    graph = pool.graph_pool()
    with graph:
        pass
    ok(C.memlake_torch_release_graph(TORCH_DEVICE, *graph.id, 1))
    assert graph.use_count == 0
    graph.close()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_python_sees_what_c_changes(pool, name):
    ROWS[name](pool)


def test_every_function_of_the_header_has_a_row():
    assert without_row(HEADER.read_text()) == []
    assert sorted({*ROWS, *CHANGES_NO_POOL} - set(declared_functions(HEADER.read_text()))) == []


def test_a_function_without_a_row_is_found():
    added = HEADER.read_text() + "\nMEMLAKE_API int memlake_pool_set_decay(memlake_pool* pool, double seconds);\n"
    assert without_row(added) == ["memlake_pool_set_decay"]


def test_a_copy_in_python_fails_its_row(pool, monkeypatch):
    kept = pool._limits()
    monkeypatch.setattr(memlake.Pool, "stats", lambda self: PoolStats.of(self._stats() | {"limit": kept[2]}))
    with pytest.raises(AssertionError):
        memlake_torch_fraction(pool)
