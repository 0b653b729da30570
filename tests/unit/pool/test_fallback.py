"""Pools on devices that lack something: what they choose instead, and what they say."""

import warnings

import pytest

import memlake

MIB = 2**20


@pytest.fixture
def plain(memlake_emulator):
    """A device without virtual memory management."""
    return memlake_emulator.emulate(memory="64MiB", lacks=["vmm"])[0]


def test_a_pool_without_a_policy_falls_back_to_caching_and_says_so_once(plain):
    with pytest.warns(RuntimeWarning, match='policy "caching" over plain allocations instead of "lake"'):
        pool = memlake.Pool(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memlake.Pool(plain).close()
    with pool, pool.allocate("10MiB") as buffer:
        assert pool.policy.name == "caching"
        assert "attribute 102" in pool.fallback_reason
        assert pool.stats().notes == (pool.fallback_reason,)
        assert "caching" in repr(pool)
        assert "without virtual memory" in repr(pool)
        buffer.fill(3)
        assert (buffer.numpy() == 3).all()
        pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "stitch", "expandable_segments:True"])
def test_a_policy_that_needs_virtual_memory_is_refused_with_the_alternative(plain, policy):
    with pytest.raises(memlake.ConfigError, match=r"needs virtual memory management.*use the policy caching"):
        memlake.Pool(plain, policy)
    assert plain.free_memory == plain.total_memory


@pytest.mark.parametrize("policy", ["caching", "direct", "driver"])
def test_the_other_policies_work_without_virtual_memory(plain, policy):
    with memlake.Pool(plain, policy) as pool:
        assert pool.fallback_reason is None
        buffers = [pool.allocate("4MiB") for _ in range(8)]
        for number, buffer in enumerate(buffers):
            buffer.fill(number)
        for number, buffer in enumerate(buffers):
            assert (buffer.numpy() == number).all()
            buffer.close()
        pool.check()


@pytest.mark.parametrize("policy", ["caching", "direct", "driver"])
def test_graph_pools_work_without_virtual_memory(plain, policy):
    with memlake.Pool(plain, policy) as pool:
        with pool.graph_pool() as memory, pool.allocate("4MiB") as buffer:
            buffer.fill(3)
            assert (buffer.numpy() == 3).all()
            assert memory.live == 4 * MIB
        pool.check()
        memory.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"location": "host"}, "location='host' needs"), ({"spill": "host"}, "spill='host' needs"), ({}, "a pool over 2")],
)
def test_a_refusal_of_what_only_lake_can_do_says_why_the_pool_has_another_policy(memlake_emulator, arguments, words):
    plain = memlake_emulator.emulate(devices=1 if arguments else 2, memory="64MiB", lacks=["vmm"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(memlake.ConfigError, match=rf"{words}.*has no virtual memory management \(its attr"):
            memlake.Pool(list(plain), **arguments)


def test_the_default_pool_and_allocate_work_without_virtual_memory(plain):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        pool = memlake.default_pool(plain)
    assert pool.policy.name == "caching"


def test_a_usual_device_has_lake_and_no_note(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual")
    with memlake.Pool(gpu) as pool:
        assert pool.policy.name == "lake"
        assert pool.fallback_reason is None
        assert pool.stats().notes == ()


@pytest.mark.parametrize("fabric", ["none", "create"])
def test_fabric_handles_that_do_not_work_become_file_descriptors(memlake_emulator, fabric):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=(), fabric=fabric)
    with pytest.warns(RuntimeWarning, match='handle type "posix_fd"'):
        pool = memlake.Pool(gpu, handle_type="fabric")
    with pool, pool.allocate("4MiB") as buffer:
        assert pool.handle_type == "posix_fd"
        assert {handle.export_types for handle in buffer.handles} == {("posix_fd",)}
        buffer.export()


@pytest.mark.parametrize(
    ("lacks", "arguments", "advice"),
    [
        ("vmm", {"location": "host"}, "needs the policy"),
        ("vmm", {"limit": "much"}, "limit"),
    ],
)
def test_a_pool_that_is_refused_warns_of_nothing_that_it_has(memlake_emulator, lacks, arguments, advice):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=[lacks])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(memlake.MemlakeError, match=advice):
            memlake.Pool(gpu, **arguments)
    assert [str(one.message) for one in told] == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        memlake.Pool(gpu).close()  # what the advice names does work


@pytest.mark.parametrize("lacks", ["vmm", "export"])
@pytest.mark.parametrize("handle_type", ["posix_fd", "fabric"])
def test_a_device_without_exports_has_pools_without_a_handle_type(memlake_emulator, lacks, handle_type):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=[lacks])
    with pytest.warns(RuntimeWarning, match="cannot hand memory to other processes"):
        pool = memlake.Pool(gpu, "caching", handle_type=handle_type)
    with pool, pool.allocate("4MiB") as buffer:
        assert pool.handle_type is None
        assert not buffer.is_shareable
        with pytest.raises(memlake.ConfigError, match="cannot hand memory to other processes"):
            buffer.export()
        with pytest.raises(memlake.ConfigError, match="leave shareable"):
            pool.allocate("4MiB", shareable=True)


def test_the_advice_for_one_buffer_fits_it(plain):
    with memlake.Pool(plain, "caching") as pool:
        with pytest.raises(memlake.ConfigError, match="allocate without single_handle and shareable"):
            pool.allocate("4MiB", single_handle=True)
        with pytest.raises(memlake.ConfigError, match="leave shareable and handle_type out"):
            pool.allocate("4MiB", shareable=True)


@pytest.mark.parametrize("lacks", ["vmm", "export"])
def test_an_export_on_a_device_without_exports_is_not_advised_to_share(memlake_emulator, lacks):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=[lacks])
    with memlake.Pool(gpu, "caching") as pool, pool.allocate("4MiB") as buffer:
        for export in (buffer.export, pool.export):
            with pytest.raises(memlake.ConfigError, match="cannot hand memory to other processes") as refused:
                export()
            assert "shareable" not in str(refused.value)


def test_an_export_of_host_memory_is_not_advised_to_share(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    with memlake.Pool(gpu, location="host") as pool, pool.allocate("4MiB") as buffer:
        with pytest.raises(memlake.ConfigError, match="lies on the host") as refused:
            buffer.export()
        assert "shareable" not in str(refused.value)


def test_a_warning_that_is_an_error_leaves_nothing_behind(plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="caching"):
            memlake.Pool(plain, initial_size="4MiB")
    assert plain.free_memory == plain.total_memory


def test_fabric_handles_that_work_are_made(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=(), fabric="works")
    with memlake.Pool(gpu, handle_type="fabric") as pool, pool.allocate("4MiB") as buffer:
        assert pool.handle_type == "fabric"
        assert {handle.export_types for handle in buffer.handles} == {("posix_fd", "fabric")}


def test_fabric_handles_that_are_refused_in_use_are_left_out(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=["rdma"], fabric="works")
    with memlake.Pool(gpu, handle_type="fabric") as pool:
        with memlake.driver.failing(gpu, call="cuMemCreate", code=800):
            buffer = pool.allocate("4MiB")
        assert {handle.export_types for handle in buffer.handles} == {("posix_fd",)}
        assert gpu.features["fabric_handles"].refusals == 1
        buffer.close()


def test_copies_over_two_devices_are_split_where_they_must_be(memlake_emulator):
    for lacks in ((), ("spanning_copies",)):
        gpus = memlake_emulator.emulate(devices=2, memory="64MiB", hardware="usual", lacks=lacks)
        with memlake.Pool(gpus) as pool, pool.allocate("100MiB") as buffer:
            assert len(buffer.pieces) == 2
            buffer.fill(0x21)
            content = bytearray(buffer.nbytes)
            buffer.copy_to(content)
            assert content == b"\x21" * buffer.nbytes
            buffer.copy_from(b"\x07" * buffer.nbytes)
            assert (buffer.numpy() == 7).all()


def test_copies_over_device_and_host_are_split_where_they_must_be(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=["spanning_copies"])
    assert gpu.features["spanning_copies"].has is False
    with memlake.Pool(gpu, spill="host") as pool, pool.allocate("80MiB") as buffer:
        assert [piece.device for piece in buffer.pieces] == [gpu, None]
        buffer.fill(9)
        assert (buffer.numpy() == 9).all()
    assert gpu.features["spanning_copies"].refusals == 0


def test_a_copy_that_is_refused_in_use_is_split_and_remembered(memlake_emulator, monkeypatch):
    monkeypatch.setenv("MEMLAKE_FEATURES", "spanning_copies=yes")
    gpus = memlake_emulator.emulate(devices=2, memory="64MiB", lacks=["spanning_copies"])
    with memlake.Pool(gpus) as pool, pool.allocate("100MiB") as buffer:
        buffer.fill(5)
        assert (buffer.numpy() == 5).all()
        assert gpus[0].features["spanning_copies"].refusals == 1
        assert any("spanning_copies" in note for note in pool.stats().notes)
        buffer.fill(6)
        assert gpus[0].features["spanning_copies"].refusals == 1
