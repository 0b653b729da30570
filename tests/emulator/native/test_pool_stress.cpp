// Threads that allocate from the same pools on streams of their own and of others, and processes that end in the
// middle.

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "abi.hpp"
#include "thread_check.hpp"

namespace memlake::test {

namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 300;

/// Each round: allocate on one stream, write there, hand over to the other by an event, check there, free there.
void work(const World& world, const std::vector<CUmemoryPool>& pools, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  world.use(0);
  CUstream streams[2] = {};
  CUevent event{};
  for (auto& stream : streams)
    CHECK(cuStreamCreate(&stream, below(2) == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  std::vector<std::uint64_t> kept;
  for (int i = 0; i < kRounds && g_failures == 0; ++i) {
    const std::size_t from = below(2);
    const CUmemoryPool pool = pools[below(pools.size())];
    const std::uint64_t size = 64 + below(below(8) == 0 ? 4 * kMiB : 16384);
    const auto value = static_cast<unsigned char>(below(256));
    CUdeviceptr memory = 0;
    CHECK(cuMemAllocFromPoolAsync(&memory, size, pool, streams[from]));
    CHECK(cuMemsetD8Async(memory, value, size, streams[from]));
    CHECK(cuEventRecord(event, streams[from]));
    CHECK(cuStreamWaitEvent(streams[1 - from], event, 0));
    unsigned char bytes[64] = {};
    CHECK(cuMemcpyDtoHAsync_v2(bytes, memory + below(size - 63), sizeof bytes, streams[1 - from]));
    for (const unsigned char byte : bytes)
      if (byte != value) check(-1, "a byte that was written");
    if (below(16) == 0) {
      kept.push_back(memory);
    } else {
      CHECK(cuMemFreeAsync(memory, streams[1 - from]));
    }
    switch (below(12)) {
      case 0:
        CHECK(cuStreamSynchronize(streams[below(2)]));
        break;
      case 1:
        CHECK(cuMemPoolTrimTo(pool, below(64) * kMiB));
        break;
      case 2:
        CHECK(cuCtxSynchronize());
        break;
      default:
        break;
    }
  }
  CHECK(cuCtxSynchronize());
  for (const std::uint64_t memory : kept) CHECK(cuMemFree_v2(memory));
  for (auto& stream : streams) CHECK(cuStreamDestroy_v2(stream));
  CHECK(cuEventDestroy_v2(event));
}

}  // namespace

PROCESS_TEST(eight_threads_share_pools_and_leave_nothing) {
  const char* given = std::getenv("MEMLAKE_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::cout << "  MEMLAKE_TEST_SEED=" << seed << "\n";
  const World world("memory=1GiB,pool_segment=8MiB");
  std::vector<CUmemoryPool> pools(3);
  must(cuDeviceGetDefaultMemPool(pools.data(), world.first));
  pools[1] = new_pool(pool_props(world.first));
  pools[2] = new_pool(pool_props(world.first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  set_attribute(pools[1], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { work(world, pools, seed + i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(g_failures.load(), 0);
  must(cuCtxSynchronize());
  for (const CUmemoryPool pool : pools) {
    EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
    must(cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
  }
  EXPECT_EQ(free_memory(), 1024 * kMiB);
  const std::string text = ledger();
  for (const char* nothing : {"\"pool_allocations\":[]", "\"events\":[]", "\"violations\":[]"})
    EXPECT(text.find(nothing) != std::string::npos);
}

PROCESS_TEST(the_process_may_exit_with_pools_in_use_and_frees_that_wait) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t memory = allocate(pool, 64 * kMiB, stream);
  must(cuMemsetD8Async(memory, 1, 64 * kMiB, stream));
  must(cuMemFreeAsync(memory, stream));
  hold(stream);
  must(cuMemFreeAsync(allocate(pool, kMiB, stream), stream));
  must(cuMemPoolDestroy(pool));
  allocate(new_pool(pool_props(world.first)), kMiB, new_stream());
  // The child leaves through exit() now.
}

PROCESS_TEST(a_context_that_ends_takes_its_frees_along) {
  const World world("memory=256MiB");
  CUdeviceptr plain = 0;
  must(cuMemAlloc_v2(&plain, 4 * kMiB));
  const CUmemoryPool pool = new_pool(pool_props(world.first));
  CUcontext context{};
  must(cuCtxCreate_v2(&context, 0, world.first));
  const CUstream stream = new_stream();
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  hold(stream);
  must(cuMemFreeAsync(memory, stream));
  must(cuMemFreeAsync(plain, stream));
  must(cuCtxDestroy_v2(context));
  world.use(0);
  must(cuCtxSynchronize());
  must(cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(cuMemFree_v2(plain), CUDA_ERROR_INVALID_VALUE);
  must(cuMemPoolDestroy(pool));
  EXPECT_EQ(free_memory(), 256 * kMiB);
}

}  // namespace memlake::test
