// memlake_pool_*: pools through the C functions only. Every test has a process of its own, with devices of its own.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

extern "C" int memlake_h_version(void);

namespace memlake {
namespace {

using test::make_stream;
using test::stats_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kConf = "driver:emulated,memory:256MiB,backing:none";

std::string last_error() { return memlake_last_error(); }
bool says(const std::string& part) { return last_error().find(part) != std::string::npos; }

memlake_pool* make_pool(const std::string& more = "") {
  memlake_pool* const pool = memlake_pool_create((kConf + (more.empty() ? "" : "," + more)).c_str(), 0);
  if (pool == nullptr) test::fail(last_error(), std::source_location::current());
  return pool;
}

/// Ends it, which proves that nothing is live.
void expect_empty(memlake_pool* pool) {
  const int code = memlake_pool_destroy(pool);
  if (code != MEMLAKE_OK) test::fail(last_error(), std::source_location::current());
}

PROCESS_TEST(the_header_and_the_library_have_one_version) {
  EXPECT_EQ(memlake_abi_version(), MEMLAKE_ABI_VERSION);
  EXPECT_EQ(memlake_h_version(), MEMLAKE_ABI_VERSION);
  EXPECT_EQ(last_error(), "");
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_OK);
}

PROCESS_TEST(a_pool_gives_memory_takes_it_back_and_counts) {
  for (const char* policy : {"policy:lake", "policy:caching", "policy:expandable", "policy:direct", "policy:driver"}) {
    memlake_pool* const pool = make_pool(policy);
    void* const first = memlake_pool_allocate(pool, 3 * kMiB + 1, nullptr);
    void* const second = memlake_pool_allocate(pool, 100, nullptr);
    EXPECT(first != nullptr && second != nullptr && first != second);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 512, 0u);
    memlake_pool_stats_t stats = stats_of(pool);
    EXPECT_EQ(stats.requested, 3 * kMiB + 101);
    EXPECT(stats.allocated >= stats.requested);
    EXPECT(stats.held >= stats.allocated);
    EXPECT_EQ(stats.num_allocations, 2u);
    EXPECT_EQ(stats.limit, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(memlake_pool_free(pool, first), MEMLAKE_OK);
    EXPECT_EQ(memlake_pool_free(pool, second), MEMLAKE_OK);
    EXPECT_EQ(memlake_pool_trim(pool, 0), MEMLAKE_OK);
    stats = stats_of(pool);
    EXPECT_EQ(stats.allocated, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_EQ(stats.num_frees, 2u);
    expect_empty(pool);
  }
}

PROCESS_TEST(freed_memory_serves_the_next_request) {
  memlake_pool* const pool = make_pool();
  void* const first = memlake_pool_allocate(pool, 5 * kMiB, nullptr);
  EXPECT_EQ(memlake_pool_free(pool, first), MEMLAKE_OK);
  EXPECT(memlake_pool_allocate(pool, 5 * kMiB, nullptr) == first);
  EXPECT_EQ(memlake_pool_free(pool, first), MEMLAKE_OK);
  expect_empty(pool);
}

PROCESS_TEST(zero_bytes_are_a_success_and_null_may_be_freed) {
  memlake_pool* const pool = make_pool();
  EXPECT(memlake_pool_allocate(pool, 0, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_free(pool, nullptr), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_free_on(pool, nullptr, nullptr), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_record_stream(pool, nullptr, nullptr), MEMLAKE_OK);
  expect_empty(pool);
}

PROCESS_TEST(absurd_sizes_are_refused_and_change_nothing) {
  for (const char* policy : {"policy:lake", "policy:caching", "policy:expandable", "policy:direct", "policy:driver"}) {
    memlake_pool* const pool = make_pool(policy);
    EXPECT(memlake_pool_allocate(pool, static_cast<std::size_t>(-1), nullptr) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_INVALID_ARGUMENT);
    EXPECT(says("negative"));
    EXPECT(memlake_pool_allocate(pool, std::numeric_limits<std::int64_t>::max(), nullptr) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
    EXPECT(memlake_pool_allocate(pool, 257 * kMiB, nullptr) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
    EXPECT(says("no memory for 257 MiB"));
    EXPECT(says("Hint: "));
    EXPECT_EQ(stats_of(pool).held, 0u);
    expect_empty(pool);
  }
}

PROCESS_TEST(what_was_freed_or_never_allocated_cannot_be_freed) {
  memlake_pool* const pool = make_pool();
  memlake_pool* const other = make_pool();
  auto* const mine = static_cast<char*>(memlake_pool_allocate(pool, kMiB, nullptr));
  int on_the_host = 0;
  for (void* foreign : {static_cast<void*>(mine + 512), static_cast<void*>(&on_the_host)}) {
    EXPECT_EQ(memlake_pool_free(pool, foreign), MEMLAKE_ERROR_INVALID_FREE);
    EXPECT_EQ(memlake_pool_free_on(pool, foreign, nullptr), MEMLAKE_ERROR_INVALID_FREE);
    EXPECT_EQ(memlake_pool_record_stream(pool, foreign, nullptr), MEMLAKE_ERROR_INVALID_FREE);
  }
  EXPECT_EQ(memlake_pool_free(other, mine), MEMLAKE_ERROR_INVALID_FREE);
  EXPECT_EQ(memlake_pool_free(pool, mine), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_free(pool, mine), MEMLAKE_ERROR_INVALID_FREE);
  EXPECT(says("freed already"));
  EXPECT_EQ(stats_of(pool).num_frees, 1u);
  expect_empty(pool);
  expect_empty(other);
}

PROCESS_TEST(a_pool_is_destroyed_once_and_only_when_empty) {
  memlake_pool* const pool = make_pool();
  void* const memory = memlake_pool_allocate(pool, kMiB, nullptr);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_ERROR_INVALID_FREE);
  EXPECT(says("1 live"));
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_ERROR_CLOSED);
  EXPECT(memlake_pool_allocate(pool, kMiB, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CLOSED);
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_ERROR_CLOSED);
  EXPECT_EQ(memlake_pool_destroy(nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT(memlake_pool_allocate(nullptr, 1, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_INVALID_ARGUMENT);
}

PROCESS_TEST(statistics_fit_into_what_the_caller_knows) {
  memlake_pool* const pool = make_pool();
  memlake_pool_stats_t stats;
  std::memset(&stats, 0xAB, sizeof(stats));
  EXPECT_EQ(memlake_pool_stats(pool, nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
  stats.struct_size = 0;
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_ERROR_INVALID_ARGUMENT);
  stats.struct_size = offsetof(memlake_pool_stats_t, requested_peak);  // a caller of an older header
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
  EXPECT_EQ(stats.struct_size, offsetof(memlake_pool_stats_t, requested_peak));
  EXPECT_EQ(stats.requested, 0u);
  EXPECT_EQ(stats.requested_peak, 0xABABABABABABABABu);
  stats.struct_size = sizeof(stats) + 80;  // a caller of a newer one
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
  EXPECT_EQ(stats.struct_size, sizeof(stats));
  expect_empty(pool);
}

PROCESS_TEST(memory_reaches_another_stream_only_when_its_own_has_passed) {
  memlake_pool* const pool = make_pool("policy:expandable");
  void* const a = make_stream();
  void* const b = make_stream();
  std::uint64_t gate = 0;
  EXPECT_EQ(memlakeEmulatorHold(b, &gate), 0);
  void* const memory = memlake_pool_allocate(pool, 30 * kMiB, a);
  EXPECT_EQ(memlake_pool_record_stream(pool, memory, b), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  EXPECT(stats_of(pool).active > 0);
  void* const next = memlake_pool_allocate(pool, 30 * kMiB, a);
  EXPECT(next != memory);
  EXPECT_EQ(memlakeEmulatorOpen(gate), 0);
  EXPECT_EQ(cuStreamSynchronize(static_cast<cuda::CUstream>(b)), 0);
  EXPECT(memlake_pool_allocate(pool, 30 * kMiB, a) == memory);
  // In the order of another stream: reused there at once, although that stream has not passed.
  EXPECT_EQ(memlakeEmulatorHold(b, &gate), 0);
  EXPECT_EQ(memlake_pool_free_on(pool, memory, b), MEMLAKE_OK);
  EXPECT(memlake_pool_allocate(pool, 30 * kMiB, b) == memory);
  EXPECT_EQ(memlakeEmulatorOpen(gate), 0);
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_free(pool, next), MEMLAKE_OK);
  expect_empty(pool);
}

PROCESS_TEST(the_legacy_name_of_the_default_stream_is_known_and_a_handle_of_no_stream_is_refused) {
  memlake_pool* const pool = make_pool();
  void* const legacy = memlake_pool_allocate(pool, kMiB, reinterpret_cast<void*>(1));
  EXPECT_EQ(memlake_pool_free_on(pool, legacy, nullptr), MEMLAKE_OK);
  int no_stream = 0;
  EXPECT(memlake_pool_allocate(pool, kMiB, &no_stream) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CONFIG);
  void* const memory = memlake_pool_allocate(pool, kMiB, nullptr);
  EXPECT_EQ(memlake_pool_record_stream(pool, memory, &no_stream), MEMLAKE_ERROR_CONFIG);
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  expect_empty(pool);
}

PROCESS_TEST(a_failure_is_remembered_by_its_own_thread) {
  EXPECT_EQ(memlake_pool_destroy(nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_OK);
    EXPECT(memlake_pool_create("limit:lots", 0) == nullptr);
    EXPECT(says("limit"));
  }).join();
  EXPECT_EQ(last_error(), "the pool is NULL");
}

PROCESS_TEST(a_thread_frees_what_another_allocated) {
  memlake_pool* const pool = make_pool();
  void* memory = nullptr;
  std::thread([&] { memory = memlake_pool_allocate(pool, kMiB, nullptr); }).join();
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  expect_empty(pool);
}

PROCESS_TEST(threads_at_work_never_get_the_same_memory) {
  memlake_pool* const pool = make_pool("limit:200MiB");
  std::vector<void*> streams = {nullptr, make_stream(), make_stream(), make_stream()};
  std::atomic<int> doubled{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 8; ++number)
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      std::vector<std::pair<void*, std::size_t>> mine;
      for (int i = 0; i < 4000; ++i) {
        if (mine.size() > 12 || (!mine.empty() && random() % 2 == 0)) {
          const std::size_t which = random() % mine.size();
          if (memlake_pool_free(pool, mine[which].first) != MEMLAKE_OK) ++doubled;
          mine[which] = mine.back();
          mine.pop_back();
          continue;
        }
        const std::size_t size = 1 + random() % (2 * kMiB);
        if (void* memory = memlake_pool_allocate(pool, size, streams[number % streams.size()])) {
          mine.emplace_back(memory, size);
        } else {
          ++refused;
        }
      }
      for (const auto& [memory, size] : mine)
        if (memlake_pool_free(pool, memory) != MEMLAKE_OK) ++doubled;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(doubled.load(), 0);  // memory given twice would be freed twice
  const memlake_pool_stats_t stats = stats_of(pool);
  EXPECT_EQ(stats.allocated, 0u);
  EXPECT_EQ(stats.num_allocations, stats.num_frees);
  EXPECT_EQ(stats.num_ooms, static_cast<std::uint64_t>(refused.load()));
  expect_empty(pool);
}

PROCESS_TEST(a_forked_child_is_told_and_locks_nothing) {
  memlake_pool* const pool = make_pool();
  void* const memory = memlake_pool_allocate(pool, kMiB, nullptr);
  // A thread that keeps the lock busy: the child may be forked while it is taken. Not under a sanitizer, whose own
  // allocator has locks that a child would wait for.
#if defined(__SANITIZE_ADDRESS__)
  std::atomic<bool> is_over{true};
#else
  std::atomic<bool> is_over{false};
#endif
  std::thread busy([&] {
    while (!is_over) memlake_pool_free(pool, memlake_pool_allocate(pool, 512, nullptr));
  });
  if (is_over) busy.join();  // its very end allocates, too
  for (int i = 0; i < 20; ++i) {
    const test::Ended ended = test::run_in_child([&] {
      EXPECT(memlake_pool_allocate(pool, kMiB, nullptr) == nullptr);
      EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_DRIVER_GONE);
      EXPECT(says("forked"));
      EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_ERROR_DRIVER_GONE);
      EXPECT_EQ(memlake_pool_free_on(pool, memory, nullptr), MEMLAKE_ERROR_DRIVER_GONE);
      EXPECT_EQ(memlake_pool_trim(pool, 0), MEMLAKE_ERROR_DRIVER_GONE);
      EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_ERROR_DRIVER_GONE);
      EXPECT(memlake_pool_create(kConf, 0) == nullptr);
      EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_DRIVER_GONE);
    });
    EXPECT_EQ(ended, test::Ended{.code = 0});
  }
  is_over = true;
  if (busy.joinable()) busy.join();
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  expect_empty(pool);
}

TEST(a_process_may_end_with_everything_open) {
  for (const auto leaves : {test::Leaves::by_exit, test::Leaves::at_once}) {
    const test::Ended ended = test::run_in_child(
        [] {
          static memlake_pool* const pool = make_pool("policy:direct");
          static void* const memory = memlake_pool_allocate(pool, kMiB, make_stream());
          struct Late {
            ~Late() { memlake_pool_free(pool, memory); }  // after memlake's own handlers of exit, or before them
          };
          static const Late late;
          std::atexit([] { memlake_pool_destroy(pool); });
        },
        leaves);
    EXPECT_EQ(ended, test::Ended{.code = 0});
  }
}

}  // namespace
}  // namespace memlake
