// Streams through the C functions: which operations call the driver, captures, destroyed streams, per-thread streams.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::begin_capture;
using test::driver_calls;
using test::end_capture;
using test::expect_ok;
using test::make_stream;
using test::reset_calls;
using test::stats_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kPolicies[] = {"lake", "caching", "expandable", "stitch", "direct", "driver"};
void* const kPerThread = reinterpret_cast<void*>(2);

memlake_pool* make_pool(const std::string& policy, const std::string& more = "") {
  const std::string conf = "policy:" + policy + ",driver:emulated,memory:256MiB,backing:none" + more;
  memlake_pool* const pool = memlake_pool_create(conf.c_str(), 0);
  if (pool == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  return pool;
}

/// Makes a gate on the stream; work that is queued behind it is not complete before open().
class Gate {
 public:
  explicit Gate(void* stream) { EXPECT_EQ(memlakeEmulatorHold(stream, &gate_), 0); }
  void open() { EXPECT_EQ(memlakeEmulatorOpen(gate_), 0); }

 private:
  std::uint64_t gate_ = 0;
};

PROCESS_TEST(cached_memory_costs_no_driver_call_on_any_stream) {
  for (const char* policy : {"lake", "caching", "expandable", "stitch"}) {
    memlake_pool* const pool = make_pool(policy);
    std::vector<void*> streams{nullptr};
    for (int i = 0; i < 6; ++i) streams.push_back(make_stream());
    const auto round = [&] {
      std::vector<void*> blocks;
      for (void* stream : streams)
        for (const std::size_t size : {std::size_t{700}, 3 * kMiB})
          blocks.push_back(memlake_pool_allocate(pool, size, stream));
      for (void* block : blocks) EXPECT(block != nullptr);
      for (void* block : blocks) expect_ok(memlake_pool_free(pool, block));
    };
    round();
    reset_calls();
    for (int i = 0; i < 5; ++i) round();
    // By the stream's name, as PyTorch's pluggable allocator frees.
    for (void* stream : streams) {
      void* const block = memlake_pool_allocate(pool, 700, stream);
      expect_ok(memlake_pool_free_on(pool, block, stream));
    }
    EXPECT_EQ(driver_calls(), 0u);
    EXPECT_EQ(driver_calls("cuThreadExchangeStreamCaptureMode"), 0u);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(the_calls_of_a_slow_request_are_made_in_relaxed_capture_mode) {
  memlake_pool* const pool = make_pool("lake");
  reset_calls();
  void* const block = memlake_pool_allocate(pool, 3 * kMiB, nullptr);
  EXPECT(driver_calls("cuMemCreate") > 0);
  EXPECT_EQ(driver_calls("cuThreadExchangeStreamCaptureMode"), 2u);
  expect_ok(memlake_pool_free(pool, block));
  reset_calls();
  expect_ok(memlake_pool_trim(pool, 0));
  EXPECT(driver_calls("cuMemUnmap") > 0);
  EXPECT_EQ(driver_calls("cuThreadExchangeStreamCaptureMode"), 2u);
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(a_free_on_a_capturing_stream_is_done_and_the_capture_stays_intact) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    void* const own = memlake_pool_allocate(pool, 3 * kMiB, stream);
    void* const recorded = memlake_pool_allocate(pool, 3 * kMiB, other);
    void* const elsewhere = memlake_pool_allocate(pool, 3 * kMiB, other);
    expect_ok(memlake_pool_record_stream(pool, recorded, stream));
    begin_capture(stream);
    expect_ok(memlake_pool_free(pool, own));
    expect_ok(memlake_pool_free(pool, recorded));
    expect_ok(memlake_pool_free_on(pool, elsewhere, stream));
    EXPECT_EQ(stats_of(pool).allocated, 0u);
    EXPECT_EQ(stats_of(pool).num_frees, 3u);
    // What the capturing stream used stays pending, whatever other streams do meanwhile.
    for (int i = 0; i < 3; ++i) {
      void* const next = memlake_pool_allocate(pool, 3 * kMiB, other);
      EXPECT(next != nullptr && next != recorded && next != elsewhere);
      expect_ok(memlake_pool_free(pool, next));
    }
    EXPECT(stats_of(pool).active >= 6 * kMiB);
    expect_ok(memlake_pool_trim(pool, 0));
    EXPECT(stats_of(pool).active >= 6 * kMiB);
    end_capture(stream);
    EXPECT_EQ(cuStreamSynchronize(stream), 0);
    void* const after = memlake_pool_allocate(pool, 512, nullptr);  // looks at what is pending
    void* const again = memlake_pool_allocate(pool, 512, nullptr);
    expect_ok(memlake_pool_free(pool, after));
    expect_ok(memlake_pool_free(pool, again));
    EXPECT_EQ(stats_of(pool).active, 0u);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_global_capture_of_another_thread_and_the_calls_of_a_pool_do_not_disturb_each_other) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream capturing = make_stream();
    const cuda::CUstream a = make_stream();
    const cuda::CUstream b = make_stream();
    begin_capture(capturing, 0);
    std::thread([&] {
      make_stream();
      std::vector<void*> blocks;
      for (const std::size_t size : {std::size_t{700}, 3 * kMiB, 30 * kMiB}) {
        void* const block = memlake_pool_allocate(pool, size, a);
        if (block == nullptr) test::fail(memlake_last_error(), std::source_location::current());
        expect_ok(memlake_pool_record_stream(pool, block, b));
        blocks.push_back(block);
      }
      for (void* block : blocks) expect_ok(memlake_pool_free(pool, block));
      void* const next = memlake_pool_allocate(pool, 40 * kMiB, a);  // asks the events
      EXPECT(next != nullptr);
      expect_ok(memlake_pool_free(pool, next));
      expect_ok(memlake_pool_trim(pool, 0));
    }).join();
    end_capture(capturing);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_call_outside_the_pool_is_refused_during_a_global_capture) {
  memlake_pool* const pool = make_pool("lake");
  const cuda::CUstream capturing = make_stream();
  const cuda::CUstream other = make_stream();
  begin_capture(capturing, 0);
  EXPECT_EQ(cuStreamSynchronize(other), int{cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED});
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(capturing, &graph), int{cuda::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED});
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(a_capturing_stream_gets_cached_and_new_memory_without_harm_to_its_capture) {
  for (const char* policy : {"lake", "caching", "expandable", "stitch", "direct"}) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    void* const cached = memlake_pool_allocate(pool, 3 * kMiB, stream);
    expect_ok(memlake_pool_free(pool, cached));
    begin_capture(stream);
    void* const first = memlake_pool_allocate(pool, 3 * kMiB, stream);
    void* const fresh = memlake_pool_allocate(pool, 30 * kMiB, stream);
    EXPECT(first != nullptr && fresh != nullptr);
    expect_ok(memlake_pool_free(pool, fresh));
    expect_ok(memlake_pool_free(pool, first));
    end_capture(stream);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_request_of_a_capturing_stream_never_makes_it_wait_for_another) {
  for (const char* policy : {"lake", "stitch", "expandable"}) {
    memlake_pool* const pool = make_pool(policy, ",limit:64MiB");
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    void* const block = memlake_pool_allocate(pool, 60 * kMiB, other);
    Gate gate(other);
    expect_ok(memlake_pool_free(pool, block));
    begin_capture(stream);
    std::thread opener([&] { gate.open(); });  // the host may wait for the other stream
    void* const served = memlake_pool_allocate(pool, 60 * kMiB, stream);
    opener.join();
    if (served != nullptr) expect_ok(memlake_pool_free(pool, served));
    end_capture(stream);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(memory_of_a_capturing_stream_is_not_taken_away) {
  for (const char* policy : {"lake", "stitch", "expandable"}) {
    memlake_pool* const pool = make_pool(policy, ",limit:64MiB");
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, 60 * kMiB, stream)));
    begin_capture(stream);
    EXPECT(memlake_pool_try_allocate(pool, 60 * kMiB, other) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
    expect_ok(memlake_pool_trim(pool, 0));
    EXPECT(stats_of(pool).held >= 60 * kMiB);
    void* const own = memlake_pool_allocate(pool, 60 * kMiB, stream);
    EXPECT(own != nullptr);
    expect_ok(memlake_pool_free(pool, own));
    end_capture(stream);
    void* const after = memlake_pool_allocate(pool, 60 * kMiB, other);
    EXPECT(after != nullptr);
    expect_ok(memlake_pool_free(pool, after));
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_free_after_its_stream_was_destroyed_loses_nothing) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy, ",limit:64MiB");
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    void* const own = memlake_pool_allocate(pool, 20 * kMiB, stream);
    void* const recorded = memlake_pool_allocate(pool, 20 * kMiB, other);
    void* const elsewhere = memlake_pool_allocate(pool, 20 * kMiB, other);
    expect_ok(memlake_pool_record_stream(pool, recorded, stream));
    EXPECT_EQ(cuStreamDestroy_v2(stream), 0);
    expect_ok(memlake_pool_free(pool, own));
    expect_ok(memlake_pool_free(pool, recorded));
    expect_ok(memlake_pool_free_on(pool, elsewhere, stream));
    EXPECT_EQ(stats_of(pool).allocated, 0u);
    // All of it serves other streams.
    void* const all = memlake_pool_allocate(pool, 60 * kMiB, other);
    if (all == nullptr) test::fail(memlake_last_error(), std::source_location::current());
    expect_ok(memlake_pool_free(pool, all));
    expect_ok(memlake_pool_trim(pool, 0));
    EXPECT_EQ(stats_of(pool).active, 0u);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(work_of_a_destroyed_stream_keeps_its_memory_from_others) {
  memlake_pool* const pool = make_pool("lake", ",limit:64MiB");
  const cuda::CUstream stream = make_stream();
  void* const block = memlake_pool_allocate(pool, 60 * kMiB, stream);
  Gate gate(stream);
  EXPECT_EQ(cuMemsetD8Async(reinterpret_cast<std::uint64_t>(block), 1, 60 * kMiB, stream), 0);
  EXPECT_EQ(cuStreamDestroy_v2(stream), 0);  // its work still runs
  expect_ok(memlake_pool_free(pool, block));
  std::atomic<bool> is_open = false;
  std::thread opener([&] {
    is_open = true;
    gate.open();
  });
  void* const next = memlake_pool_allocate(pool, 60 * kMiB, nullptr);
  EXPECT(is_open.load());
  EXPECT(next != nullptr);
  opener.join();
  expect_ok(memlake_pool_free(pool, next));
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(the_per_thread_default_stream_is_another_stream_in_every_thread) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    make_stream();  // makes a context current
    void* const mine = memlake_pool_allocate(pool, 3 * kMiB, kPerThread);
    EXPECT(mine != nullptr);
    expect_ok(memlake_pool_free(pool, mine));
    reset_calls();
    void* const again = memlake_pool_allocate(pool, 3 * kMiB, kPerThread);
    if (std::string(policy) != "direct" && std::string(policy) != "driver") {
      EXPECT(again == mine);
      EXPECT_EQ(driver_calls(), 0u);
    }
    std::thread([&] {
      make_stream();
      // Behind this thread's stream, too; then it belongs to the first thread's again.
      Gate gate(kPerThread);
      expect_ok(memlake_pool_free_on(pool, again, kPerThread));
      EXPECT(stats_of(pool).active > 0);
      void* const other = memlake_pool_allocate(pool, 3 * kMiB, kPerThread);
      EXPECT(other != nullptr && other != again);
      gate.open();
      EXPECT_EQ(cuStreamSynchronize(static_cast<cuda::CUstream>(kPerThread)), 0);
      expect_ok(memlake_pool_free(pool, other));
    }).join();
    void* const last = memlake_pool_allocate(pool, 3 * kMiB, kPerThread);
    EXPECT(last != nullptr);
    expect_ok(memlake_pool_free(pool, last));
    EXPECT_EQ(stats_of(pool).active, 0u);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(memory_of_another_threads_own_stream_is_taken_behind_a_wait_for_the_device) {
  memlake_pool* const pool = make_pool("lake", ",limit:64MiB");
  std::thread([&] {
    make_stream();
    expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, 60 * kMiB, kPerThread)));
  }).join();
  make_stream();
  reset_calls();
  void* const next = memlake_pool_allocate(pool, 60 * kMiB, kPerThread);
  if (next == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  EXPECT(driver_calls("cuCtxSynchronize") > 0);
  expect_ok(memlake_pool_free(pool, next));
  expect_ok(memlake_pool_destroy(pool));
}

}  // namespace
}  // namespace memlake
