// Streams that run in threads: what ends while something else goes on.

#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>

#include "abi.hpp"
#include "cpu_access.hpp"

namespace memlake::test {

namespace {

/// A host function that runs until it is let go.
struct Busy {
  std::atomic<bool> is_running = false;
  std::atomic<bool> may_end = false;

  static void run(void* data) {
    auto& busy = *static_cast<Busy*>(data);
    busy.is_running = true;
    while (!busy.may_end) std::this_thread::yield();
  }

  void start(CUstream stream) {
    must(cuLaunchHostFunc(stream, run, this));
    while (!is_running) std::this_thread::yield();
  }
};

bool has_stream(CUstream stream) {
  return ledger().find("\"handle\":" + std::to_string(reinterpret_cast<std::uint64_t>(stream))) != std::string::npos;
}

std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

}  // namespace

PROCESS_TEST(a_destroyed_stream_is_gone_at_once_when_it_is_idle_and_after_its_work_when_not) {
  const World world;
  const CUstream idle = new_stream();
  must(cuLaunchHostFunc(idle, [](void*) {}, nullptr));
  must(cuStreamSynchronize(idle));
  must(cuStreamDestroy_v2(idle));
  EXPECT(!has_stream(idle));

  const CUstream stream = new_stream();
  const CUevent event = new_event();
  Busy busy;
  busy.start(stream);
  must(cuEventRecord(event, stream));
  must(cuStreamDestroy_v2(stream));
  EXPECT(has_stream(stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  busy.may_end = true;
  must(cuEventSynchronize(event));
  EXPECT(!has_stream(stream));
}

PROCESS_TEST(a_thread_that_waits_for_a_context_is_told_when_another_ends_it) {
  const World world;
  // The ledger counts a call when it begins, so the thread may still come too late to wait: then its stream is gone.
  // That is an answer, too, but not the one that is asked for here.
  std::atomic<int> answer = CUDA_ERROR_INVALID_HANDLE;
  for (int calls = 1; calls <= 1000 && answer.load() == CUDA_ERROR_INVALID_HANDLE; ++calls) {
    CUcontext context{};
    must(cuCtxCreate_v2(&context, 0, world.first));
    const CUstream stream = new_stream();
    hold(stream);
    std::thread waiter([&] { answer = cuStreamSynchronize(stream); });
    const std::string begun = "\"cuStreamSynchronize\":" + std::to_string(calls);
    while (std::string(ledger()).find(begun) == std::string::npos) std::this_thread::yield();
    must(cuCtxDestroy_v2(context));
    waiter.join();
  }
  EXPECT_EQ(answer.load(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

PROCESS_TEST(two_threads_that_end_one_context_do_not_meet_inside) {
  const World world;
  CUcontext context{};
  must(cuCtxCreate_v2(&context, 0, world.first));
  Busy busy;
  busy.start(new_stream());
  std::thread first([&] { EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS); });
  for (unsigned version = 0; cuCtxGetApiVersion(context, &version) == CUDA_SUCCESS;) std::this_thread::yield();
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
  busy.may_end = true;
  first.join();
}

PROCESS_TEST(a_context_that_is_retained_while_its_last_release_waits_is_a_new_one) {
  const World world;
  Busy busy;
  busy.start(new_stream());
  std::thread releasing([&] { EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(world.first), CUDA_SUCCESS); });
  unsigned flags = 0;
  for (int is_active = 1; is_active == 1;) must(cuDevicePrimaryCtxGetState(world.first, &flags, &is_active));
  CUcontext fresh{};
  must(cuDevicePrimaryCtxRetain(&fresh, world.first));
  EXPECT(fresh != world.contexts[0]);
  busy.may_end = true;
  releasing.join();
  must(cuCtxSetCurrent(fresh));
  must(cuCtxSynchronize());
  must(cuDevicePrimaryCtxRelease_v2(world.first));
}

PROCESS_TEST(closing_a_device_waits_for_work_of_another_device_that_runs_on_its_memory) {
  const World world("devices=2,memory=1GiB");
  constexpr std::uint64_t size = 128 * kMiB;
  const std::uint64_t mapped = new_mapping(world.first, size);
  set_access(mapped, size, access_desc(world.first + 1));
  CUdeviceptr plain = 0;
  void* pinned = nullptr;
  must(cuMemAlloc_v2(&plain, size));
  must(cuMemHostAlloc(&pinned, size, 0));
  world.use(1);
  CUdeviceptr own[2];
  for (CUdeviceptr& memory : own) {
    must(cuMemAlloc_v2(&memory, size));
    must(cuMemsetD8_v2(memory, 1, size));
  }
  must(cuCtxSynchronize());
  must(cuMemsetD8Async(mapped, 1, size, new_stream()));
  must(cuMemcpyDtoDAsync_v2(plain, own[0], size, new_stream()));
  must(cuMemcpyDtoHAsync_v2(pinned, own[1], size, new_stream()));
  for (const std::uint64_t target : {mapped, std::uint64_t{plain}, reinterpret_cast<std::uint64_t>(pinned)})
    while (peek(target) != 1) std::this_thread::yield();
  must(memlakeEmulatorCloseDevices(world.first, 1));  // and the process lives
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

PROCESS_TEST(queued_work_on_memory_of_a_closed_device_fails_its_context_when_its_turn_comes) {
  const World world("devices=2,memory=64MiB");
  void* pinned = nullptr;
  must(cuMemHostAlloc(&pinned, 4096, 0));
  world.use(1);
  CUdeviceptr own = 0;
  must(cuMemAlloc_v2(&own, 4096));
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  must(cuMemcpyHtoDAsync_v2(own, pinned, 4096, stream));
  must(memlakeEmulatorCloseDevices(world.first, 1));
  must(memlakeEmulatorOpen(gate));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(ledger().find("pinned host memory") != std::string::npos);
}

PROCESS_TEST(pageable_memory_may_change_as_soon_as_an_asynchronous_copy_returned) {
  const World world;
  const std::uint64_t memory = new_mapping(world.first);
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  char bytes[8] = "before";
  must(cuMemcpyHtoDAsync_v2(memory, bytes, sizeof bytes, stream));
  std::memcpy(bytes, "after", 6);
  must(memlakeEmulatorOpen(gate));
  must(cuStreamSynchronize(stream));
  must(cuMemcpyDtoH_v2(bytes, memory, sizeof bytes));
  EXPECT_EQ(std::string(bytes), "before");
}

PROCESS_TEST(a_host_function_must_not_call_the_driver) {
  const World world;
  static std::atomic<int> answer = -1;
  must(cuLaunchHostFunc(nullptr, [](void*) { answer = cuCtxSynchronize(); }, nullptr));
  must(cuCtxSynchronize());
  EXPECT_EQ(answer.load(), CUDA_ERROR_NOT_PERMITTED);
}

PROCESS_TEST(a_worker_that_was_idle_for_long_ends_and_is_replaced) {
  const World world;
  const CUstream stream = new_stream();
  int count = 0;
  const auto run_one = [&] {
    must(cuLaunchHostFunc(stream, [](void* data) { ++*static_cast<int*>(data); }, &count));
    must(cuStreamSynchronize(stream));
  };
  std::thread([] {}).join();  // a sanitizer may add a thread of its own with the first one
  const std::ptrdiff_t before = threads();
  run_one();
  while (threads() > before) std::this_thread::yield();
  run_one();
  EXPECT_EQ(count, 2);
}

PROCESS_TEST(work_of_one_stream_wakes_no_worker_of_another_stream) {
  constexpr long kOthers = 100, kPieces = 200;
  const World world;
  std::vector<std::uint64_t> gates;
  for (long i = 0; i < kOthers; ++i) gates.push_back(hold(new_stream()));
  const CUstream stream = new_stream();
  const auto switches = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
  };
  const long before = switches();
  for (long i = 0; i < kPieces; ++i) {
    must(cuLaunchHostFunc(stream, [](void*) {}, nullptr));
    must(cuStreamSynchronize(stream));
  }
  // A thread that is woken in vain waits again, which the system counts: with a common condition variable the workers
  // of all streams did so at each piece.
  EXPECT(switches() - before < kOthers * kPieces / 2);
  for (const std::uint64_t gate : gates) must(memlakeEmulatorOpen(gate));
  must(cuCtxSynchronize());
}

PROCESS_TEST(a_worker_wakes_when_what_its_stream_waits_for_has_ended) {
  const World world;
  const CUstream streams[] = {new_stream(), new_stream(), new_stream()};
  const CUevent events[] = {new_event(), new_event()};
  std::atomic<int> count = 0;
  const auto add = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t gate = hold(streams[0]);
    must(cuEventRecord(events[0], streams[0]));
    for (const int i : {1, 2}) {  // a chain of streams, each with work before and behind its wait
      must(cuLaunchHostFunc(streams[i], add, &count));
      must(cuStreamWaitEvent(streams[i], events[i - 1], 0));
      must(cuLaunchHostFunc(streams[i], add, &count));
      if (i == 1) must(cuEventRecord(events[1], streams[1]));
    }
    must(memlakeEmulatorOpen(gate));
    must(cuStreamSynchronize(streams[2]));
  }
  EXPECT_EQ(count.load(), 200);
}

PROCESS_TEST(a_priority_beyond_the_range_is_the_nearest_one) {
  const World world("backing=none,memory=64MiB");
  int range[2] = {};
  must(cuCtxGetStreamPriorityRange(&range[0], &range[1]));
  for (const auto& [asked, given] : {std::pair(7, range[0]), {range[1], range[1]}, {-100, range[1]}}) {
    CUstream stream{};
    int priority = 77;
    must(cuStreamCreateWithPriority(&stream, 0, asked));
    must(cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, given);
  }
}

PROCESS_TEST(flags_that_only_a_capture_knows_are_refused) {
  const World world;
  const CUevent event = new_event();
  EXPECT_EQ(cuStreamWaitEvent(nullptr, event, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventRecordWithFlags(event, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventRecordWithFlags(event, nullptr, 0), CUDA_SUCCESS);
}

}  // namespace memlake::test
