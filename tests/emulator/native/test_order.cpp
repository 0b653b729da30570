// Verdicts about the order of work: the same whether the work has finished or not. Each case runs with the work held
// back by a gate, and with the work done. How a test knows that it is done without telling the emulator: a host
// function behind it would tell, so the test reads the bytes that the work wrote.

#include <atomic>
#include <string>
#include <thread>

#include "abi.hpp"

namespace memlake::test {

namespace {

/// Streams of worker threads, and pinned memory that shows whether work has run.
struct Racing {
  explicit Racing(const std::string& config = "memory=256MiB") : world(config) {
    void* pointer = nullptr;
    must(cuMemHostAlloc(&pointer, sizeof(int), 0));
    flag = new (pointer) std::atomic<int>(0);
  }

  /// Queues work on the memory, and returns when it is done (`is_done`) or while a gate holds it.
  void use(std::uint64_t memory, CUstream stream, bool is_done) {
    gate = is_done ? 0 : hold(stream);
    must(cuMemsetD8Async(memory, 1, 64, stream));
    if (!is_done) return;
    const int next = flag->load() + 1;
    must(cuMemcpyHtoDAsync_v2(memory, &next, sizeof next, stream));
    must(cuMemcpyDtoHAsync_v2(flag, memory, sizeof next, stream));
    while (flag->load() != next) std::this_thread::yield();
  }

  void open() {
    if (gate != 0) must(memlakeEmulatorOpen(gate));
    gate = 0;
  }

  World world;
  CUmemoryPool pool = new_pool(pool_props(world.first));
  CUstream one = new_stream();
  CUstream other = new_stream();
  std::atomic<int>* flag = nullptr;
  std::uint64_t gate = 0;
};

/// Orders `stream` behind all that `earlier` has.
void order(CUstream earlier, CUstream stream) {
  const CUevent event = new_event();
  must(cuEventRecord(event, earlier));
  must(cuStreamWaitEvent(stream, event, 0));
  must(cuEventDestroy_v2(event));
}

/// Waits for the stream without a call of the driver that would order the host behind it.
void let_end(Racing& racing, CUstream stream) {
  racing.open();
  must(cuStreamSynchronize(stream));
}

}  // namespace

PROCESS_TEST(a_free_of_pool_memory_in_an_unordered_stream_is_a_violation_also_when_the_work_is_done) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    const std::uint64_t memory = allocate(racing.pool, kMiB, racing.one);
    racing.use(memory, racing.one, is_done);
    EXPECT_EQ(cuMemFreeAsync(memory, racing.other), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says(is_done ? "cuMemcpyDtoHAsync" : "cuMemsetD8Async"));
    EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says("the host has not waited for"));
    order(racing.one, racing.other);
    must(cuMemFreeAsync(memory, racing.other));
    racing.open();
    must(cuCtxSynchronize());
  }
}

PROCESS_TEST(the_nvidia_profile_lets_an_unordered_free_pass_and_the_work_still_runs) {
  for (const bool is_done : {false, true}) {
    Racing racing("memory=256MiB,profile=nvidia");
    const std::uint64_t memory = allocate(racing.pool, kMiB, racing.one);
    must(cuStreamSynchronize(racing.one));
    racing.use(memory, racing.one, is_done);
    must(cuMemFreeAsync(memory, racing.other));
    must(cuMemPoolTrimTo(racing.pool, 0));
    racing.open();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    must(memlakeEmulatorCloseDevices(racing.world.first, 1));
  }
}

PROCESS_TEST(an_unordered_free_of_plain_memory_is_a_violation_also_when_the_work_is_done) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    CUdeviceptr memory = 0;
    must(cuMemAlloc_v2(&memory, kMiB));
    racing.use(memory, racing.one, is_done);
    EXPECT_EQ(cuMemFreeAsync(memory, racing.other), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says("does not wait for"));
    racing.open();
    must(cuMemFree_v2(memory));  // waits, and so the host has seen the end of all work of the device
    const std::uint64_t next = allocate(racing.pool, kMiB, racing.one);
    must(cuMemFreeAsync(next, racing.other));
  }
}

PROCESS_TEST(an_unmap_that_the_host_did_not_wait_for_is_a_violation_also_when_the_work_is_done) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    const std::uint64_t memory = new_mapping(racing.world.first);
    racing.use(memory, racing.one, is_done);
    EXPECT_EQ(cuMemUnmap(memory, kGranule), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says("the host has not waited for"));
    const CUmemAccessDesc lower = access_desc(racing.world.first, CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT_EQ(cuMemSetAccess(memory, kGranule, &lower, 1), CUDA_ERROR_LAUNCH_FAILED);
    order(racing.one, racing.other);  // orders the stream, not the host
    EXPECT_EQ(cuMemUnmap(memory, kGranule), CUDA_ERROR_LAUNCH_FAILED);
    let_end(racing, racing.other);  // the host sees it through the other stream
    must(cuMemUnmap(memory, kGranule));
    must(cuMemAddressFree(memory, kGranule));
  }
}

PROCESS_TEST(every_way_to_learn_that_work_is_done_orders_the_host_behind_it) {
  const auto queries = [](const auto& query) {
    while (query() == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  };
  Racing racing;
  const CUevent event = new_event();
  for (int way = 0; way < 9; ++way) {
    const std::uint64_t memory = new_mapping(racing.world.first);
    CUdeviceptr plain = 0;
    must(cuMemAlloc_v2(&plain, 64));
    racing.use(memory, racing.one, true);
    must(cuEventRecord(event, racing.one));
    std::atomic<bool> is_told = false;
    char byte = 0;
    const auto tell = [](void* data) { static_cast<std::atomic<bool>*>(data)->store(true); };
    switch (way) {
      case 0:
        must(cuStreamSynchronize(racing.one));
        break;
      case 1:
        must(cuEventSynchronize(event));
        break;
      case 2:
        must(cuCtxSynchronize());
        break;
      case 3:
        queries([&] { return cuStreamQuery(racing.one); });
        break;
      case 4:
        queries([&] { return cuEventQuery(event); });
        break;
      case 5:
        must(cuMemFree_v2(plain));
        break;
      case 6:
        must(cuMemcpyDtoHAsync_v2(&byte, memory, 1, racing.one));
        break;  // pageable: it waits
      case 7:
        must(cuLaunchHostFunc(racing.one, tell, &is_told));
        while (!is_told) std::this_thread::yield();
        break;
      default:
        while (pending(racing.one) != 0) std::this_thread::yield();
    }
    EXPECT_EQ(cuMemUnmap(memory, kGranule), CUDA_SUCCESS);
    must(cuMemAddressFree(memory, kGranule));
  }
}

PROCESS_TEST(a_step_of_a_manual_stream_orders_the_host_behind_what_ran) {
  const World world("memory=256MiB,streams=manual");
  const CUstream stream = new_stream();
  const std::uint64_t memory = new_mapping(world.first);
  must(cuMemsetD8Async(memory, 1, 64, stream));
  EXPECT_EQ(cuMemUnmap(memory, kGranule), CUDA_ERROR_LAUNCH_FAILED);
  std::size_t ran = 0;
  must(memlakeEmulatorStep(stream, 1, &ran));
  must(cuMemUnmap(memory, kGranule));
}

PROCESS_TEST(streams_that_are_gone_keep_their_place_in_the_order) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    const std::uint64_t memory = allocate(racing.pool, kMiB, racing.one);
    racing.use(memory, blocking, is_done);
    must(cuStreamDestroy_v2(blocking));
    EXPECT_EQ(cuMemFreeAsync(memory, racing.other), CUDA_ERROR_LAUNCH_FAILED);
    must(cuMemFreeAsync(memory, nullptr));  // the legacy stream waits for blocking streams
    racing.open();
    must(cuCtxSynchronize());

    const std::uint64_t next = allocate(racing.pool, kMiB, racing.one);
    const CUstream gone = new_stream();
    racing.use(next, gone, is_done);
    must(cuStreamDestroy_v2(gone));
    EXPECT_EQ(cuMemFree_v2(next), CUDA_ERROR_LAUNCH_FAILED);
    racing.open();
    must(cuCtxSynchronize());
    must(cuMemFree_v2(next));
  }
}

PROCESS_TEST(an_allocation_is_done_at_once_only_if_the_host_has_seen_its_stream_idle) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    const std::uint64_t early = allocate(racing.pool, kMiB, racing.one);
    must(cuMemsetD8Async(early, 1, 64, racing.other));  // nothing was queued before it
    must(cuStreamSynchronize(racing.other));
    racing.use(early, racing.one, is_done);
    const std::uint64_t late = allocate(racing.pool, kMiB, racing.one);
    EXPECT_EQ(cuMemsetD8Async(late, 1, 64, racing.other), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says("may not have come to the allocation"));
    EXPECT_EQ(cuMemFreeAsync(late, racing.other), CUDA_ERROR_LAUNCH_FAILED);
    order(racing.one, racing.other);
    must(cuMemsetD8Async(late, 1, 64, racing.other));
    must(cuMemFreeAsync(late, racing.other));
    must(cuMemFreeAsync(early, racing.one));
    racing.open();
    must(cuCtxSynchronize());
  }
}

PROCESS_TEST(an_event_in_the_legacy_stream_orders_the_same_whether_its_work_is_done_or_not) {
  Racing racing;
  for (const bool is_done : {false, true}) {
    const CUstream first = new_stream(CU_STREAM_DEFAULT);
    const CUstream second = new_stream(CU_STREAM_DEFAULT);
    const std::uint64_t memory = allocate(racing.pool, kMiB, first);
    must(cuMemsetD8Async(memory, 1, 64, nullptr));
    must(cuMemsetD8Async(memory, 1, 64, second));
    must(cuCtxSynchronize());
    racing.use(memory, first, is_done);
    EXPECT_EQ(cuMemFreeAsync(memory, second), CUDA_ERROR_LAUNCH_FAILED);
    must(cuEventRecord(new_event(), nullptr));  // the legacy stream is between the two
    must(cuMemFreeAsync(memory, second));
    racing.open();
    must(cuCtxSynchronize());
  }
}

PROCESS_TEST(many_streams_that_come_and_go_keep_the_order_known) {
  Racing racing;
  const std::uint64_t memory = allocate(racing.pool, kMiB, racing.one);
  for (int i = 0; i < 500; ++i) {
    const CUstream brief = new_stream();
    must(cuMemsetD8Async(memory, 1, 64, brief));
    order(brief, racing.one);
    must(cuStreamDestroy_v2(brief));
  }
  EXPECT_EQ(cuMemFreeAsync(memory, racing.other), CUDA_ERROR_LAUNCH_FAILED);
  must(cuMemFreeAsync(memory, racing.one));
}

}  // namespace memlake::test
