from concurrent.futures import ThreadPoolExecutor

import pytest

import memlake
from helpers.c_header import last_error, typed_library
from memlake import ConfigError


@pytest.fixture(params=["lake", "expandable"])
def reachable(request, gpus):
    """A pool on the first of two devices that reach each other, and the second."""
    pool = memlake.Pool(gpus[0], request.param)
    yield pool, gpus[1]
    pool.check()


def test_the_set_is_live(reachable):
    pool, peer = reachable
    peers = pool.peer_accessible_by
    assert len(peers) == 0
    peers.add(peer)
    assert peer in pool.peer_accessible_by
    assert list(peers) == [peer]
    assert peers == {peer}
    assert repr(peers) == f"PeerDevices([{peer!r}])"
    assert type(peers | set()) is set
    peers.remove(peer)
    assert peers == set()
    pool.peer_accessible_by = [peer, pool.device]
    assert peers == {peer}
    peers.clear()
    assert peers == set()


def test_a_peer_reaches_what_is_there_and_what_comes(reachable):
    pool, peer = reachable
    before = pool.allocate("10MiB")
    pool.peer_accessible_by = {peer}
    after = pool.allocate("30MiB")
    stream = peer.create_stream()
    for buffer in (before, after):
        buffer.fill(1, stream=stream)
    stream.sync()


def test_who_is_not_in_the_set_does_not_reach_it(reachable):
    pool, peer = reachable
    buffer = pool.allocate("10MiB")
    pool.peer_accessible_by.add(peer)
    pool.peer_accessible_by.discard(peer)
    stream = peer.create_stream()
    with pytest.raises(memlake.DriverError, match="access"):
        buffer.fill(1, stream=stream)


def test_own_devices_are_not_in_the_set_and_cannot_be_taken_away(gpus):
    pool = memlake.Pool(gpus)
    pool.peer_accessible_by = gpus
    assert pool.peer_accessible_by == set()
    with pytest.raises(ConfigError, match="cannot be taken away"):
        pool.peer_accessible_by.discard(gpus[1])


def test_a_device_that_cannot_reach_the_memory_is_refused(memlake_emulator):
    one, two = memlake_emulator.emulate(devices=2, memory="64MiB", peers="none")
    pool = memlake.Pool(one)
    with pytest.raises(ConfigError, match="cannot reach the memory of"):
        pool.peer_accessible_by.add(two)
    with pytest.raises(ConfigError, match="expected a memlake Device, got int"):
        pool.peer_accessible_by.add(1)
    assert pool.peer_accessible_by == set()


@pytest.mark.parametrize("policy", ["caching", "stitch", "direct"])
def test_memory_of_cu_mem_alloc_has_no_access_of_its_own(gpus, policy):
    pool = memlake.Pool(gpus[0], policy)
    with pytest.raises(ConfigError, match="takes memory with cuMemAlloc"):
        pool.peer_accessible_by.add(gpus[1])
    assert pool.peer_accessible_by == set()


@pytest.mark.needs("virtual_memory")
def test_access_is_taken_away_when_queued_work_has_finished(memlake_emulator):
    own, peer = memlake_emulator.emulate(devices=2, memory="256MiB")
    pool = memlake.Pool(own)
    pool.peer_accessible_by = [peer]
    streams = own.create_stream(), peer.create_stream()
    with pool.allocate("128MiB") as buffer:
        for round_ in range(20):
            for stream in streams:
                buffer.fill(round_, stream=stream)  # the driver refuses the change while this runs
            pool.peer_accessible_by = []
            assert list(pool.peer_accessible_by) == []
            pool.peer_accessible_by = [peer]
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_a_peer_that_was_closed_is_no_obstacle(gpus):
    pool = memlake.Pool(gpus[0])
    pool.peer_accessible_by.add(gpus[1])
    pool.allocate("4MiB").close()
    gpus[1].close()
    with pool.allocate("30MiB"):
        pool.peer_accessible_by.clear()
    assert pool.peer_accessible_by == set()
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_a_peer_that_c_added_keeps_its_access_when_python_adds_another(memlake_emulator):
    own, of_c, of_python = memlake_emulator.emulate(devices=3, memory="64MiB")
    pool = memlake.Pool(own)
    code = typed_library().memlake_pool_enable_peer(pool.native_handle, of_c.ordinal)
    assert code == 0, last_error()
    assert pool.peer_accessible_by == {of_c}
    pool.peer_accessible_by.add(of_python)
    assert list(pool.peer_accessible_by) == [of_c, of_python]
    with pool.allocate("10MiB") as buffer:
        for peer in (of_c, of_python):
            stream = peer.create_stream()
            buffer.fill(1, stream=stream)
            stream.sync()
    pool.peer_accessible_by.discard(of_c)
    assert list(pool.peer_accessible_by) == [of_python]


@pytest.mark.needs("virtual_memory")
def test_threads_that_add_and_remove_different_peers_do_not_undo_each_other(memlake_emulator):
    own, *others = memlake_emulator.emulate(devices=4, memory="64MiB")
    pool = memlake.Pool(own)
    library = typed_library()

    def change(peer):
        for _ in range(50):
            assert library.memlake_pool_enable_peer(pool.native_handle, peer.ordinal) == 0
            assert peer in pool.peer_accessible_by
            pool.peer_accessible_by.discard(peer)
            assert peer not in pool.peer_accessible_by
            pool.peer_accessible_by.add(peer)
            assert peer in pool.peer_accessible_by

    with ThreadPoolExecutor(len(others)) as threads:
        list(threads.map(change, others))
    assert pool.peer_accessible_by == set(others)


@pytest.mark.needs("virtual_memory")
def test_a_closed_pool_has_no_peers_and_keeps_its_limits(gpus):
    pool = memlake.Pool(gpus[0], limit="32MiB", max_size="48MiB", release_threshold="1MiB")
    pool.peer_accessible_by.add(gpus[1])
    pool.close()
    assert pool.peer_accessible_by == set()
    assert (pool.limit, pool.max_size, pool.release_threshold) == (32 * 2**20, 48 * 2**20, 2**20)
    with pytest.raises(memlake.ClosedError):
        pool.peer_accessible_by.add(gpus[1])
    with pytest.raises(memlake.ClosedError):
        pool.limit = None


@pytest.mark.parametrize("wrong", [None, 5])
def test_peers_are_a_set(gpus, wrong):
    pool = memlake.Pool(gpus[0])
    with pytest.raises(ConfigError, match="is a set of devices"):
        pool.peer_accessible_by = wrong
