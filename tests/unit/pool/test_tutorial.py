"""Each row of the tables that tutorials on CUDA's memory pools have (docs/guides/cuda_pools.md), as it really is."""

import threading

import pytest

import memlake
from memlake import ConfigError, InvalidFree

MIB = 2**20


class TestPropertiesOfAPool:
    def test_alloc_type_device_is_no_type(self, gpu):
        with pytest.raises(ConfigError, match='"pinned" is memory of the device'):
            memlake.Pool(gpu, allocation_type="device")

    def test_alloc_type_pinned_is_the_type_of_device_memory(self, gpu):
        with memlake.Pool(gpu, allocation_type="pinned") as pool, pool.allocate("4MiB") as buffer:
            assert buffer.pieces[0].device == gpu

    def test_alloc_type_managed_is_refused_with_the_reason(self, gpu):
        with pytest.raises(ConfigError, match="driver migrates"):
            memlake.Pool(gpu, allocation_type="managed")

    def test_handle_type_none_cannot_be_shared(self, gpu):
        pool = memlake.Pool(gpu, handle_type=None)
        with pool.allocate("4MiB") as buffer, pytest.raises(memlake.MemlakeError, match="shareable"):
            buffer.export()

    def test_handle_type_posix_fd_can_be_shared(self, gpu):
        with memlake.Pool(gpu, handle_type="posix_fd") as pool, pool.allocate("4MiB") as buffer:
            buffer.export().close()

    @pytest.mark.parametrize("handle_type", ["win32", "win32_kmt"])
    def test_handle_types_of_others_are_named_and_refused(self, gpu, handle_type):
        with pytest.raises(ConfigError, match=handle_type):
            memlake.Pool(gpu, handle_type=handle_type)

    def test_handle_type_fabric_becomes_posix_fd_where_there_is_no_fabric(self, gpu):
        with pytest.warns(RuntimeWarning, match="no fabric handles"), memlake.Pool(gpu, handle_type="fabric") as pool:
            assert pool.handle_type == "posix_fd"

    def test_location_device_is_memory_of_that_device(self, gpus):
        with memlake.Pool(gpus[1], location="device") as pool, pool.allocate("4MiB") as buffer:
            assert [piece.device for piece in buffer.pieces] == [gpus[1]]
            assert gpus[1].total_memory - gpus[1].free_memory == pool.reserved_mem_current
            assert gpus[0].free_memory == gpus[0].total_memory

    @pytest.mark.parametrize("location", ["host", "host_numa"])
    def test_location_host_is_memory_of_the_machine(self, gpu, location):
        with memlake.Pool(gpu, location=location, limit="64MiB") as pool, pool.allocate("4MiB") as buffer:
            assert [piece.device for piece in buffer.pieces] == [None]
            assert gpu.free_memory == gpu.total_memory


class TestAttributes:
    def test_the_release_threshold_is_what_stays_held_not_what_may_be_unused(self, gpu):
        pool = memlake.Pool(gpu, "expandable", release_threshold=MIB)
        live = pool.allocate("20MiB")
        pool.allocate("20MiB").close()
        assert pool.reserved_mem_current == 40 * MIB  # it does not keep the pool from growing
        gpu.synchronize()
        assert pool.reserved_mem_current == 20 * MIB  # what is in use counts, so nothing unused stays
        live.close()

    def test_reserved_mem_current_reserves_nothing(self, gpu):
        pool = memlake.Pool(gpu)
        with pytest.raises(ConfigError, match=r"pool\.reserve"):
            pool.reserved_mem_current = 32 * MIB
        assert pool.reserved_mem_current == 0
        pool.reserve(32 * MIB)
        assert pool.reserved_mem_current == 32 * MIB

    def test_reserved_mem_high_is_no_limit(self, gpu):
        pool = memlake.Pool(gpu)
        with pytest.raises(ConfigError, match="max_size"):
            pool.reserved_mem_high = 32 * MIB
        pool.allocate("40MiB").close()
        assert pool.reserved_mem_high == 40 * MIB
        with memlake.Pool(gpu, max_size="8MiB") as capped, pytest.raises(memlake.OutOfMemory):
            capped.allocate("9MiB")

    def test_trimming_says_what_to_keep_and_never_takes_what_is_in_use(self, gpu):
        pool = memlake.Pool(gpu, "expandable")
        live = pool.allocate("20MiB")
        pool.allocate("40MiB").close()
        assert pool.trim(keep="40MiB") == 20 * MIB
        assert pool.trim(keep="50MiB") == 0  # less is held already
        assert pool.trim() == 20 * MIB
        assert pool.reserved_mem_current == 20 * MIB
        live.close()


class TestDefaultAndOwnPools:
    def test_the_default_pool_is_shared_by_all_code_and_an_own_one_is_not(self, gpu):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(memlake.default_pool(gpu)))
        thread.start()
        thread.join()
        assert seen == [memlake.default_pool(gpu)]
        assert memlake.Pool(gpu) is not memlake.Pool(gpu)

    def test_the_default_pool_is_there_from_the_start(self, gpu):
        with memlake.allocate("4MiB", device=gpu) as buffer:
            assert buffer.device == gpu
        assert memlake.default_pool(gpu).stats().num_allocations == 1

    def test_both_can_be_configured(self, gpu):
        default = memlake.default_pool(gpu)
        default.release_threshold = "1MiB"
        default.reuse_allow_opportunistic = False
        default.limit = "32MiB"
        with pytest.raises(memlake.OutOfMemory):
            default.allocate("40MiB")
        assert memlake.Pool(gpu, "stitch", limit="50%", max_size="32MiB", release_threshold=0).max_size == 32 * MIB

    def test_allocate_uses_the_default_pool_or_the_one_that_is_current(self, gpu):
        pool = memlake.Pool(gpu)
        memlake.allocate(1, device=gpu).close()
        assert pool.stats().num_allocations == 0
        with memlake.use_pool(pool):
            memlake.allocate(1, device=gpu).close()
        assert pool.stats().num_allocations == 1

    def test_the_default_pool_lives_with_its_device_and_an_own_one_as_long_as_you_say(self, gpu):
        pool = memlake.Pool(gpu)
        pool.close()
        assert not pool.is_open
        with pytest.raises(InvalidFree):
            memlake.default_pool(gpu).close()
        default = memlake.default_pool(gpu)
        gpu.close()
        assert not default.is_open
