// Pools of other places than one device: of the host, for peers, and the functions of CUDA 13.0 that name a place.

#include <cstring>

#include "abi.hpp"

namespace memlake::test {

namespace {

CUmemPoolProps host_props(CUmemLocationType type = CU_MEM_LOCATION_TYPE_HOST) {
  CUmemPoolProps props = pool_props(0);
  props.location = {type, 0};
  return props;
}

CUresult create(const CUmemPoolProps& props) {
  CUmemoryPool pool{};
  return cuMemPoolCreate(&pool, &props);
}

}  // namespace

PROCESS_TEST(a_pool_of_host_memory_is_the_programs_own_and_devices_are_let_in) {
  const World world("memory=64MiB");
  for (const auto type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
    const CUmemoryPool pool = new_pool(host_props(type));
    const CUstream stream = new_stream();
    const std::uint64_t memory = allocate(pool, kMiB, stream);
    EXPECT_EQ(free_memory(), 64 * kMiB);  // it takes nothing from a device
    auto* bytes = reinterpret_cast<unsigned char*>(memory);
    std::memset(bytes, 7, kMiB);
    int type_of_memory = 0;
    must(cuPointerGetAttribute(&type_of_memory, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    EXPECT_EQ(type_of_memory, +CU_MEMORYTYPE_HOST);
    CUdeviceptr plain = 0;
    must(cuMemAlloc_v2(&plain, kMiB));
    must(cuMemcpyHtoDAsync_v2(plain, bytes, kMiB, stream));
    must(cuMemcpyDtoHAsync_v2(bytes + 4096, plain, 4096, stream));
    must(cuStreamSynchronize(stream));

    CUmemAccess_flags flags{};
    CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, world.first};
    CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
    must(cuMemPoolGetAccess(&flags, pool, &device));
    EXPECT_EQ(+flags, 0);
    must(cuMemPoolGetAccess(&flags, pool, &host));
    EXPECT_EQ(+flags, 3);
    const CUmemAccessDesc grant = access_desc(world.first);
    must(cuMemPoolSetAccess(pool, &grant, 1));
    const memlakeEmulatorRange range{memory, kMiB, 1};
    must(memlakeEmulatorLaunch(stream, "kernel", &range, 1));
    must(cuStreamSynchronize(stream));
    const CUmemAccessDesc revoke{host, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    EXPECT_EQ(cuMemPoolSetAccess(pool, &revoke, 1), CUDA_ERROR_INVALID_DEVICE);
    must(cuMemFreeAsync(memory, stream));
    must(cuMemFree_v2(plain));
    must(cuMemPoolDestroy(pool));
  }
}

PROCESS_TEST(a_device_that_was_not_let_in_cannot_run_on_host_pools) {
  const World world("memory=64MiB");
  const CUstream stream = new_stream();
  const memlakeEmulatorRange range{allocate(new_pool(host_props()), kMiB, stream), 64, 0};
  must(memlakeEmulatorLaunch(stream, "kernel", &range, 1));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

PROCESS_TEST(pools_that_cannot_be_made_are_refused_with_their_reason) {
  const World world("memory=64MiB");
  CUmemPoolProps props = host_props();
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(create(props), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("cannot be exported"));
  EXPECT_EQ(create(host_props(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)), CUDA_ERROR_INVALID_VALUE);
  props = pool_props(world.first);
  props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(create(props), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("managed memory cannot be exported"));
  EXPECT_EQ(create(pool_props(world.first, CU_MEM_HANDLE_TYPE_FABRIC)), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(create(pool_props(world.first, CU_MEM_HANDLE_TYPE_WIN32)), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(create(pool_props(world.first, 1 | 8)), CUDA_ERROR_INVALID_VALUE);
  props = pool_props(world.first);
  props.reserved[53] = 1;
  EXPECT_EQ(create(props), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("zero the whole struct"));
}

PROCESS_TEST(an_old_driver_knows_no_max_size) {
  const World world("memory=64MiB,driver=12000");
  EXPECT_EQ(create(pool_props(world.first, 0, kMiB)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(host_props()), CUDA_ERROR_INVALID_VALUE);
  CUmemPoolProps managed = pool_props(world.first);
  managed.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  EXPECT_EQ(create(managed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(pool_props(world.first)), CUDA_SUCCESS);
}

PROCESS_TEST(the_place_functions_share_their_slot_with_the_device_functions) {
  const World world("memory=64MiB");
  CUmemoryPool one{};
  CUmemoryPool other{};
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, world.first};
  must(cuDeviceGetDefaultMemPool(&one, world.first));
  must(cuMemGetDefaultMemPool(&other, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(one, other);
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  must(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  must(cuDeviceGetMemPool(&one, world.first));
  must(cuMemGetMemPool(&other, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(one, pool);
  EXPECT_EQ(other, pool);

  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 42};  // its id is ignored
  must(cuMemGetDefaultMemPool(&one, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(cuMemPoolDestroy(one), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetMemPool(&one, &host, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_SUCCESS);
  CUmemLocation nowhere{};
  EXPECT_EQ(cuMemGetMemPool(&one, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetMemPool(&one, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_SUCCESS);
  CUmemLocation no_device{CU_MEM_LOCATION_TYPE_DEVICE, world.first + 1};
  EXPECT_EQ(cuMemGetMemPool(&one, &no_device, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&one, world.first + 1), CUDA_ERROR_INVALID_DEVICE);
}

PROCESS_TEST(peers_reach_a_pool_once_they_are_let_in_for_what_is_there_and_what_comes) {
  const World world("devices=2,memory=64MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream here = new_stream();
  world.use(1);
  const CUstream there = new_stream();
  world.use(0);
  const std::uint64_t memory = allocate(pool, kMiB, here);
  EXPECT_EQ(cuMemsetD8Async(memory, 1, kMiB, there), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("cuMemPoolSetAccess"));
  CUmemAccessDesc grant = access_desc(world.first + 1);
  must(cuMemPoolSetAccess(pool, &grant, 1));
  must(cuMemsetD8Async(memory, 1, kMiB, there));
  must(cuMemsetD8Async(allocate(pool, kMiB, here), 1, kMiB, there));
  grant.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  must(cuStreamSynchronize(there));
  must(cuMemPoolSetAccess(pool, &grant, 1));
  EXPECT_EQ(cuMemsetD8Async(memory, 1, kMiB, there), CUDA_ERROR_INVALID_VALUE);
}

PROCESS_TEST(a_device_that_is_no_peer_is_refused) {
  const World world("devices=2,memory=64MiB,peers=none");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUmemAccessDesc grants[2] = {access_desc(world.first), access_desc(world.first + 1)};
  EXPECT_EQ(cuMemPoolSetAccess(pool, grants, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemPoolSetAccess(pool, grants, 0), CUDA_ERROR_INVALID_VALUE);
}

PROCESS_TEST(a_host_pool_answers_to_zero_bytes_as_the_profile_of_the_streams_device_says) {
  for (const bool is_strict : {true, false}) {
    const World world(is_strict ? "memory=256MiB" : "memory=256MiB,profile=nvidia");
    CUmemPoolProps props = pool_props(0);
    props.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    const CUmemoryPool pool = new_pool(props);
    CUdeviceptr address = 1;
    EXPECT_EQ(cuMemAllocFromPoolAsync(&address, 0, pool, new_stream()),
              is_strict ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    EXPECT_EQ(address, is_strict ? 1U : 0U);
  }
}

}  // namespace memlake::test
