// Memory pools: order, thresholds, deferred destruction, and what is caught as a violation.

#include <string>

#include "abi.hpp"

namespace memlake::test {

namespace {

constexpr auto kHeld = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
constexpr auto kUsed = CU_MEMPOOL_ATTR_USED_MEM_CURRENT;

bool ledger_says(const std::string& part) { return ledger().find(part) != std::string::npos; }

}  // namespace

PROCESS_TEST(strict_pools_promise_256_bytes_and_nothing_more) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  for (const std::uint64_t size : {1UL, 12UL, 512UL, 4096UL, 3 * kMiB}) EXPECT_EQ(allocate(pool, size, {}) % 512, 256U);
  EXPECT_EQ(attribute(pool, kUsed), 512 + 512 + 1024 + 4096 + 512 + 3 * kMiB + 512);
  const std::uint64_t before = attribute(pool, kHeld);
  allocate(pool, 32 * kMiB, {});
  EXPECT_EQ(attribute(pool, kHeld), before + 32 * kMiB);  // whole granules need no more than they are
}

PROCESS_TEST(pools_of_the_nvidia_profile_align_to_512_bytes) {
  const World world("memory=256MiB,profile=nvidia");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  for (const std::uint64_t size : {1UL, 12UL, 512UL, 4096UL, 3 * kMiB}) EXPECT_EQ(allocate(pool, size, {}) % 512, 0U);
  CUdeviceptr nothing = 77;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&nothing, 0, pool, {}), CUDA_SUCCESS);
  EXPECT_EQ(nothing, 0U);
}

PROCESS_TEST(segments_have_the_configured_size_and_count_against_the_device) {
  const World world("memory=64MiB,pool_segment=8MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  allocate(pool, 12, {});
  EXPECT_EQ(free_memory(), 56 * kMiB);
  allocate(pool, 9 * kMiB, {});
  EXPECT_EQ(free_memory(), 46 * kMiB);
  CUdeviceptr plain = 0;
  must(cuMemAlloc_v2(&plain, 44 * kMiB));
  allocate(pool, 1 * kMiB, {});  // from what it has
  CUdeviceptr refused = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&refused, 8 * kMiB, pool, {}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(error_says("bytes left"));
  allocate(pool, 6 * kMiB, {});
  const std::uint64_t last = allocate(pool, 2 * kMiB, {});  // a smaller segment is better than none
  EXPECT_EQ(free_memory(), 0U);
  must(cuMemFreeAsync(last, {}));
}

PROCESS_TEST(a_pool_gives_up_its_own_idle_segments_for_what_does_not_fit_into_them) {
  const World world("memory=64MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  const std::uint64_t one = allocate(pool, 30 * kMiB, {});
  const std::uint64_t other = allocate(pool, 30 * kMiB, {});
  must(cuMemFreeAsync(one, {}));
  must(cuMemFreeAsync(other, {}));
  must(cuCtxSynchronize());
  EXPECT_EQ(attribute(pool, kHeld), 64 * kMiB);
  allocate(pool, 50 * kMiB, {});
  EXPECT_EQ(attribute(pool, kHeld), 50 * kMiB);
}

PROCESS_TEST(the_threshold_acts_at_every_kind_of_synchronise_and_spares_what_is_in_use) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  const auto free_some = [&] { must(cuMemFreeAsync(allocate(pool, 64 * kMiB, stream), stream)); };
  allocate(pool, 12, stream);
  free_some();
  must(cuStreamSynchronize(stream));
  EXPECT_EQ(attribute(pool, kHeld), 32 * kMiB);
  free_some();
  must(cuEventRecord(event, stream));
  must(cuEventSynchronize(event));
  EXPECT_EQ(attribute(pool, kHeld), 32 * kMiB);
  free_some();
  must(cuCtxSynchronize());
  EXPECT_EQ(attribute(pool, kHeld), 32 * kMiB);
  set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 96 * kMiB);
  free_some();
  must(cuCtxSynchronize());
  EXPECT_EQ(attribute(pool, kHeld), 96 * kMiB);
}

PROCESS_TEST(a_synchronise_of_one_stream_does_not_observe_frees_of_another) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  must(cuMemFreeAsync(allocate(pool, 3 * kMiB, stream), stream));
  must(cuStreamSynchronize(new_stream()));
  EXPECT_EQ(attribute(pool, kHeld), 32 * kMiB);
  must(cuStreamSynchronize(stream));
  EXPECT_EQ(attribute(pool, kHeld), 0U);
}

PROCESS_TEST(work_from_before_a_free_still_runs_and_calls_after_it_are_refused) {
  const World world("memory=256MiB,streams=manual");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  hold(stream);
  const std::uint64_t gate = 1;
  must(cuMemsetD8Async(memory, 0x5A, kMiB, stream));
  must(cuMemFreeAsync(memory, stream));
  EXPECT_EQ(cuMemsetD8Async(memory, 1, kMiB, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
  // A smaller one in the same place does not confuse the work from before.
  const std::uint64_t again = allocate(pool, 4096, stream);
  EXPECT_EQ(again, memory);
  must(memlakeEmulatorOpen(gate));
  must(cuStreamSynchronize(stream));
  unsigned char byte = 0;
  must(cuMemcpyDtoH_v2(&byte, again, 1));
  EXPECT_EQ(+byte, 0x5A);
}

PROCESS_TEST(a_launch_on_memory_that_was_freed_before_loses_the_context) {
  const World world("memory=256MiB,streams=manual");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  hold(stream);
  must(cuMemFreeAsync(memory, stream));
  const memlakeEmulatorRange range{memory, 64, 1};
  must(memlakeEmulatorLaunch(stream, "late", &range, 1));
  must(memlakeEmulatorOpen(1));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(ledger_says("was freed before"));
}

PROCESS_TEST(a_free_that_does_not_wait_for_a_user_is_a_violation) {
  const World world("memory=256MiB,streams=manual");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const CUstream other = new_stream();
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  must(cuMemsetD8Async(memory, 1, kMiB, other));
  EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("cuMemsetD8Async"));
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("does not wait"));
  const CUevent event = new_event();
  must(cuEventRecord(event, other));
  must(cuStreamWaitEvent(stream, event, 0));
  must(cuMemFreeAsync(memory, stream));
  CUdeviceptr plain = 0;
  must(cuMemAlloc_v2(&plain, kMiB));
  must(cuMemsetD8Async(plain, 1, kMiB, other));
  EXPECT_EQ(cuMemFreeAsync(plain, stream), CUDA_ERROR_LAUNCH_FAILED);
  must(cuStreamSynchronize(other));
  must(cuMemFreeAsync(plain, stream));
}

PROCESS_TEST(use_before_the_allocation_had_its_turn_is_a_violation) {
  const World world("memory=256MiB,streams=manual");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const CUstream other = new_stream();
  hold(stream);
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  EXPECT_EQ(cuMemsetD8Async(memory, 1, kMiB, other), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("may not have come to the allocation"));
  EXPECT_EQ(cuMemFreeAsync(memory, other), CUDA_ERROR_LAUNCH_FAILED);
  must(cuMemsetD8Async(memory, 1, kMiB, stream));
  const CUevent event = new_event();
  must(cuEventRecord(event, stream));
  must(cuStreamWaitEvent(other, event, 0));
  must(cuMemsetD8Async(memory, 1, kMiB, other));
  must(cuMemFreeAsync(memory, other));
  must(memlakeEmulatorOpen(1));
  must(cuCtxSynchronize());
}

PROCESS_TEST(a_destroyed_pool_ends_with_its_last_allocation) {
  const World world("memory=256MiB,streams=manual");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t one = allocate(pool, kMiB, stream);
  const std::uint64_t other = allocate(pool, kMiB, stream);
  hold(stream);
  must(cuMemFreeAsync(one, stream));
  must(cuMemPoolDestroy(pool));
  EXPECT_EQ(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(ledger_says("\"is_destroyed\":true"));
  must(cuMemFreeAsync(other, stream));
  EXPECT_EQ(free_memory(), 224 * kMiB);  // the stream has not come to it
  must(memlakeEmulatorOpen(1));
  std::size_t ran = 0;
  must(memlakeEmulatorStep(stream, 8, &ran));
  EXPECT_EQ(free_memory(), 256 * kMiB);
  EXPECT(ledger_says("\"pools\":[]"));
}

PROCESS_TEST(the_end_of_a_device_or_of_its_last_context_ends_its_pools) {
  const World world("devices=2,memory=256MiB");
  CUmemoryPool by_default{};
  for (const int device : {0, 1}) {
    world.use(static_cast<std::size_t>(device));
    const CUmemoryPool pool = new_pool(pool_props(world.first + device));
    allocate(pool, kMiB, new_stream());
    must(cuDeviceGetDefaultMemPool(&by_default, world.first + device));
    allocate(by_default, kMiB, new_stream());
  }
  must(cuDevicePrimaryCtxRelease_v2(world.first));
  EXPECT(!ledger_says("\"device\":" + std::to_string(world.first) + ",\"pool\""));
  must(memlakeEmulatorCloseDevices(world.first + 1, 1));
  EXPECT(ledger_says("\"pools\":[],\"pool_allocations\":[]"));
  EXPECT_EQ(cuMemPoolTrimTo(by_default, 0), CUDA_ERROR_INVALID_VALUE);
  CUcontext context{};
  must(cuDevicePrimaryCtxRetain(&context, world.first));
  must(cuCtxSetCurrent(context));
  EXPECT_EQ(free_memory(), 256 * kMiB);
}

PROCESS_TEST(a_capture_takes_no_memory_from_a_pool_and_frees_none) {
  const World world;
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  CUdeviceptr of_graph = 0;
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  must(cuMemAllocFromPoolAsync(&of_graph, 64, pool, stream));
  EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attribute(pool, kUsed), kMiB + 512);
  CUgraph graph{};
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphDestroy(graph));
}

}  // namespace memlake::test
