// memlake_torch_*: what PyTorch calls, through the C functions only. Every test has a process of its own: the pools of
// PyTorch's devices are one table per process.

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::stats_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kConf = "driver:emulated,devices:2,memory:256MiB,backing:none";

void set_conf(const std::string& conf) { setenv("MEMLAKE_CONF", conf.c_str(), 1); }

std::string last_error() { return memlake_last_error(); }
bool says(const std::string& part) { return last_error().find(part) != std::string::npos; }

/// What is written to stderr in its life.
class CapturedStderr {
 public:
  CapturedStderr() : before_(dup(2)) {
    const int file = mkstemp(path_);
    dup2(file, 2);
    close(file);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  ~CapturedStderr() {
    dup2(before_, 2);
    close(before_);
    unlink(path_);
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::size_t lines() const {
    std::size_t count = 0;
    for (const char c : text()) count += c == '\n' ? 1U : 0U;
    return count;
  }

 private:
  char path_[32] = "/tmp/memlake-stderr-XXXXXX";
  int before_;
};

PROCESS_TEST(the_first_call_makes_a_pool_per_device_from_the_environment) {
  set_conf(kConf);
  memlake_torch_init(2);
  void* const first = memlake_torch_malloc(kMiB, 0, nullptr);
  void* const second = memlake_torch_malloc(kMiB, 1, nullptr);
  EXPECT(first != nullptr && second != nullptr && first != second);
  memlake_torch_free(first, kMiB, 0, nullptr);
  EXPECT(memlake_torch_malloc(kMiB, 0, nullptr) == first);
  memlake_torch_free(first, kMiB, 0, nullptr);
  memlake_torch_free(second, kMiB, 1, nullptr);
  memlake_torch_empty_cache();
  EXPECT_EQ(last_error(), "");
}

PROCESS_TEST(zero_bytes_are_null_and_null_is_freed) {
  set_conf(kConf);
  EXPECT(memlake_torch_malloc(0, 0, nullptr) == nullptr);
  memlake_torch_free(nullptr, 0, 0, nullptr);
  memlake_torch_record_stream(nullptr, nullptr);
  std::size_t size = 5;
  EXPECT(memlake_torch_base(nullptr, &size) == nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(last_error(), "");
}

PROCESS_TEST(a_mistake_in_the_environment_is_told_once_on_stderr_and_every_time_in_last_error) {
  set_conf("polisy:caching");
  const CapturedStderr captured;
  memlake_torch_init(1);
  EXPECT_EQ(captured.lines(), 1u);
  for (int i = 0; i < 3; ++i) EXPECT(memlake_torch_malloc(kMiB, 0, nullptr) == nullptr);
  EXPECT_EQ(captured.lines(), 2u);  // one per function
  EXPECT(captured.text().find("memlake: memlake_torch_init: MEMLAKE_CONF: unknown key 'polisy'") == 0);
  EXPECT(says("MEMLAKE_CONF: unknown key 'polisy'"));
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CONFIG);
  set_conf(kConf);  // nothing was remembered of the mistake
  EXPECT(memlake_torch_malloc(kMiB, 0, nullptr) != nullptr);
}

PROCESS_TEST(wrong_frees_are_refused_and_told_once) {
  set_conf(kConf);
  void* const mine = memlake_torch_malloc(kMiB, 0, nullptr);
  void* const other = memlake_torch_malloc(kMiB, 1, nullptr);
  const CapturedStderr captured;
  memlake_torch_free(mine, kMiB, 1, nullptr);
  EXPECT(says("it is memory of device 0"));
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_INVALID_FREE);
  memlake_torch_free(static_cast<char*>(mine) + 512, kMiB, 0, nullptr);
  EXPECT(says("not the beginning of an allocation"));
  memlake_torch_free(mine, kMiB, 0, nullptr);
  memlake_torch_free(mine, kMiB, 0, nullptr);
  EXPECT(says("freed already"));
  EXPECT_EQ(captured.lines(), 1u);
  memlake_torch_free(other, kMiB, -1, nullptr);
  EXPECT(says("no device -1"));
  memlake_torch_free(other, kMiB, 1000, nullptr);
  EXPECT(says("no device 1000"));
  memlake_torch_record_stream(mine, nullptr);
  EXPECT(says("not allocated here"));
  memlake_torch_free(other, kMiB, 1, nullptr);
}

PROCESS_TEST(bad_sizes_and_devices_get_no_memory) {
  set_conf(kConf);
  const CapturedStderr captured;
  EXPECT(memlake_torch_malloc(-1, 0, nullptr) == nullptr);
  EXPECT(says("negative"));
  EXPECT(memlake_torch_malloc(kMiB, 2, nullptr) == nullptr);
  EXPECT(says("there is no device 2"));
  EXPECT(memlake_torch_malloc(kMiB, 64, nullptr) == nullptr);
  EXPECT(memlake_torch_malloc(300 * kMiB, 0, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
  EXPECT(captured.text().find("no memory for 300 MiB") != std::string::npos);
  memlake_torch_init(65);
  EXPECT(says("65 devices"));
}

PROCESS_TEST(a_pool_can_be_given_and_taken_away) {
  set_conf(kConf);
  memlake_pool* const pool = memlake_pool_create("driver:emulated,devices:2,memory:256MiB,backing:none", 0);
  EXPECT_EQ(memlake_torch_set_pool(0, pool), MEMLAKE_OK);
  void* const first = memlake_torch_malloc(kMiB, 0, nullptr);
  EXPECT_EQ(stats_of(pool).num_allocations, 1u);
  EXPECT_EQ(memlake_torch_set_pool(1, pool), MEMLAKE_ERROR_INVALID_ARGUMENT);  // it serves device 0
  EXPECT(says("serves device 0 already"));
  EXPECT_EQ(memlake_torch_set_pool(0, nullptr), MEMLAKE_OK);
  void* const second = memlake_torch_malloc(kMiB, 0, nullptr);
  EXPECT_EQ(stats_of(pool).num_allocations, 1u);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_ERROR_INVALID_FREE);  // PyTorch has some of it
  memlake_torch_free(first, kMiB, 0, nullptr);                        // where it came from
  EXPECT_EQ(stats_of(pool).num_frees, 1u);
  memlake_torch_free(second, kMiB, 0, nullptr);
  EXPECT_EQ(last_error(), "the pool still has 1 live buffers of 1048576 bytes in all; close them first");
  EXPECT_EQ(memlake_torch_set_pool(-1, pool), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_OK);
  EXPECT_EQ(memlake_torch_set_pool(0, pool), MEMLAKE_ERROR_CLOSED);
}

PROCESS_TEST(a_pool_closed_meanwhile_is_an_answer) {
  memlake_pool* const pool = memlake_pool_create(kConf, 0);
  EXPECT_EQ(memlake_torch_set_pool(0, pool), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_destroy(pool), MEMLAKE_OK);
  const CapturedStderr captured;
  EXPECT(memlake_torch_malloc(kMiB, 0, nullptr) == nullptr);
  EXPECT_EQ(last_error(), "the pool is closed");
}

PROCESS_TEST(a_recorded_stream_is_awaited) {
  set_conf("policy:expandable,driver:emulated,memory:256MiB,backing:none");
  void* const memory = memlake_torch_malloc(30 * kMiB, 0, nullptr);
  const cuda::CUstream stream = test::make_stream();
  std::uint64_t gate = 0;
  EXPECT_EQ(memlakeEmulatorHold(stream, &gate), 0);
  memlake_torch_record_stream(memory, stream);
  memlake_torch_free(memory, 30 * kMiB, 0, nullptr);
  void* const next = memlake_torch_malloc(30 * kMiB, 0, nullptr);
  EXPECT(next != memory);
  EXPECT_EQ(memlakeEmulatorOpen(gate), 0);
  memlake_torch_empty_cache();  // waits for the stream
  memlake_torch_free(next, 30 * kMiB, 0, nullptr);
  EXPECT_EQ(last_error(), "");
}

PROCESS_TEST(the_base_of_an_allocation_is_its_segment) {
  set_conf("policy:caching,driver:emulated,memory:256MiB,backing:none");
  void* const first = memlake_torch_malloc(3 * kMiB, 0, nullptr);
  void* const second = memlake_torch_malloc(3 * kMiB, 0, nullptr);
  std::size_t size = 0;
  EXPECT(memlake_torch_base(second, &size) == first);
  EXPECT_EQ(size, 20 * kMiB);
  EXPECT(memlake_torch_base(second, nullptr) == first);
  const CapturedStderr captured;
  EXPECT(memlake_torch_base(&size, &size) == nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT(says("not allocated here"));
}

PROCESS_TEST(memory_made_of_pages_has_no_base) {
  set_conf(kConf);
  void* const memory = memlake_torch_malloc(3 * kMiB, 0, nullptr);
  const CapturedStderr captured;
  std::size_t size = 0;
  EXPECT(memlake_torch_base(memory, &size) == nullptr);
  EXPECT(says("made of pages"));
}

PROCESS_TEST(a_fraction_limits_the_pool_and_one_lifts_it) {
  set_conf("driver:emulated,memory:256MiB,backing:none,limit:128MiB");
  const CapturedStderr captured;
  memlake_torch_fraction(0.25, 0);
  EXPECT(memlake_torch_malloc(100 * kMiB, 0, nullptr) == nullptr);
  memlake_torch_fraction(1, 0);
  EXPECT(memlake_torch_malloc(100 * kMiB, 0, nullptr) != nullptr);
  EXPECT(memlake_torch_malloc(100 * kMiB, 0, nullptr) == nullptr);  // the limit of MEMLAKE_CONF
  memlake_torch_fraction(1.5, 0);
  EXPECT(says("from 0 to 1"));
  memlake_torch_fraction(0.5, 77);
  EXPECT(says("no device 77"));
}

PROCESS_TEST(a_forked_child_frees_in_silence_and_gets_nothing) {
  set_conf(kConf);
  void* const memory = memlake_torch_malloc(kMiB, 0, nullptr);
  const test::Ended ended = test::run_in_child([&] {
    const CapturedStderr captured;
    memlake_torch_free(memory, kMiB, 0, nullptr);  // a tensor that the parent had, dropped here
    memlake_torch_record_stream(memory, nullptr);
    memlake_torch_empty_cache();
    EXPECT(memlake_torch_base(memory, nullptr) == nullptr);
    EXPECT(memlake_torch_malloc(kMiB, 0, nullptr) == nullptr);
    EXPECT(memlake_torch_malloc(kMiB, 1, nullptr) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_DRIVER_GONE);
    EXPECT_EQ(memlake_torch_set_pool(0, nullptr), MEMLAKE_ERROR_DRIVER_GONE);
    EXPECT_EQ(captured.text(), "");
  });
  EXPECT_EQ(ended, test::Ended{.code = 0});
  memlake_torch_free(memory, kMiB, 0, nullptr);
  EXPECT_EQ(last_error(), "");
}

TEST(a_process_may_end_while_torch_still_frees) {
  const test::Ended ended = test::run_in_child(
      [] {
        set_conf("policy:direct,driver:emulated,memory:256MiB,backing:none");
        static void* const early = memlake_torch_malloc(kMiB, 0, nullptr);
        struct Late {
          ~Late() {
            memlake_torch_free(early, kMiB, 0, nullptr);
            memlake_torch_free(memlake_torch_malloc(kMiB, 0, nullptr), kMiB, 0, nullptr);
          }
        };
        static const Late late;
      },
      test::Leaves::by_exit);
  EXPECT_EQ(ended, test::Ended{.code = 0});
}

memlake_block_t found_by(int (*function)(void*, int, memlake_block_t*), void* memory, int hint) {
  memlake_block_t block{};
  EXPECT_EQ(function(memory, hint, &block), 1);
  return block;
}

PROCESS_TEST(memory_is_found_and_released_by_its_address_alone) {
  memlake_pool* const first = memlake_torch_pool(0, kConf);
  memlake_pool* const second = memlake_torch_pool(1, kConf);
  EXPECT(first != nullptr && second != nullptr && first != second);
  EXPECT(memlake_torch_pool(0, "policy:caching") == first);  // it has one
  void* const memory = memlake_pool_allocate(second, 3 * kMiB + 1, nullptr);
  for (const int hint : {-1, 0, 1, 5, 1000}) {
    memlake_block_t block{};
    EXPECT_EQ(memlake_torch_find(memory, hint, &block), 1);
    EXPECT_EQ(block.address, reinterpret_cast<std::uint64_t>(memory));
    EXPECT_EQ(block.requested, 3 * kMiB + 1);
    EXPECT_EQ(block.device, 1);
    EXPECT_EQ(block.state, int{MEMLAKE_BLOCK_LIVE});
    EXPECT_EQ(memlake_torch_find(memory, hint, nullptr), 1);
    const memlake_block_t released = found_by(memlake_torch_release, memory, hint);
    EXPECT_EQ(released.requested, 3 * kMiB + 1);
    EXPECT_EQ(released.size, block.size);
    EXPECT_EQ(released.device, 1);
    EXPECT_EQ(memlake_torch_find(memory, hint, &block), 0);
    EXPECT_EQ(memlake_torch_release(memory, hint, &block), 0);  // it is not memlake's any more
    EXPECT(memlake_pool_allocate(second, 3 * kMiB + 1, nullptr) == memory);
  }
  EXPECT_EQ(memlake_torch_release(memory, 1, nullptr), 1);
  int on_the_host = 0;
  EXPECT_EQ(memlake_torch_release(&on_the_host, 0, nullptr), 0);
  EXPECT_EQ(memlake_torch_find(&on_the_host, 0, nullptr), 0);
  EXPECT_EQ(memlake_torch_release(nullptr, 0, nullptr), 0);
  EXPECT_EQ(memlake_torch_find(nullptr, 0, nullptr), 0);
  EXPECT_EQ(last_error(), "");
  EXPECT_EQ(memlake_pool_destroy(first), MEMLAKE_ERROR_INVALID_FREE);  // PyTorch's pools stay
}

PROCESS_TEST(a_release_needs_no_driver_call_and_no_sentence) {
  memlake_pool* const pool = memlake_torch_pool(0, kConf);
  memlake_torch_pool(1, kConf);
  void* const stream = test::make_stream();
  EXPECT_EQ(memlake_torch_release(memlake_pool_allocate(pool, kMiB, stream), 0, nullptr), 1);
  test::reset_calls();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(memlake_torch_release(memlake_pool_allocate(pool, kMiB, stream), i % 2, nullptr), 1);
    EXPECT_EQ(memlake_torch_release(&i, 0, nullptr), 0);
  }
  EXPECT_EQ(test::driver_calls(), 0u);
  EXPECT_EQ(last_error(), "");
}

PROCESS_TEST(a_wrong_configuration_is_an_error_before_the_first_tensor) {
  set_conf("policy:nonsense");  // is not read
  EXPECT(memlake_torch_pool(0, "polisy:lake") == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CONFIG);
  EXPECT(says("unknown key 'polisy'"));
  EXPECT(memlake_torch_pool(64, kConf) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT(memlake_torch_pool(2, kConf) == nullptr);
  EXPECT(says("there is no device 2"));
  EXPECT(memlake_torch_pool(0, kConf) != nullptr);
}

PROCESS_TEST(a_pool_of_a_pluggable_allocator_counts_from_its_first_request_on) {
  memlake_pool* const pool = memlake_torch_pool(0, kConf);
  memlake_pool_counts_t counts{};
  counts.struct_size = sizeof(counts);
  EXPECT_EQ(memlake_pool_counts(pool, &counts), MEMLAKE_ERROR_CONFIG);
  memlake_torch_free(memlake_torch_malloc_or_throw(10 * kMiB, 0, nullptr), 10 * kMiB, 0, nullptr);
  EXPECT_EQ(memlake_pool_counts(pool, &counts), MEMLAKE_OK);
  EXPECT_EQ(counts.allocations[0].current, 0);
  EXPECT_EQ(counts.allocations[0].allocated, 1);
  EXPECT_EQ(counts.allocated_bytes[0].peak, static_cast<int64_t>(10 * kMiB));
  // Another pool of the device does so, too.
  memlake_pool* const other = memlake_pool_create(kConf, 0);
  EXPECT_EQ(memlake_torch_set_pool(0, other), MEMLAKE_OK);
  memlake_torch_free(memlake_torch_malloc_or_throw(kMiB, 0, nullptr), kMiB, 0, nullptr);
  EXPECT_EQ(memlake_pool_counts(other, &counts), MEMLAKE_OK);
  EXPECT_EQ(counts.allocated_bytes[0].peak, static_cast<int64_t>(kMiB));
}

PROCESS_TEST(emptying_the_cache_reaches_pools_that_were_given_or_replaced) {
  memlake_pool* const given = memlake_pool_create(kConf, 0);
  memlake_pool* const next = memlake_pool_create(kConf, 0);
  memlake_pool* const closed = memlake_pool_create(kConf, 1);
  EXPECT_EQ(memlake_torch_set_pool(1, closed), MEMLAKE_OK);
  EXPECT_EQ(memlake_pool_destroy(closed), MEMLAKE_OK);
  for (memlake_pool* pool : {given, next}) {
    EXPECT_EQ(memlake_torch_set_pool(0, pool), MEMLAKE_OK);
    memlake_torch_free(memlake_torch_malloc(10 * kMiB, 0, nullptr), 10 * kMiB, 0, nullptr);
    EXPECT(stats_of(pool).held > 0);
  }
  memlake_torch_empty_cache();
  EXPECT_EQ(stats_of(given).held, 0u);
  EXPECT_EQ(stats_of(next).held, 0u);
  EXPECT_EQ(last_error(), "");
}

PROCESS_TEST(a_release_in_a_forked_child_is_silent_and_changes_nothing) {
  memlake_pool* const pool = memlake_torch_pool(0, kConf);
  void* const memory = memlake_pool_allocate(pool, kMiB, nullptr);
  const test::Ended ended = test::run_in_child([&] {
    const CapturedStderr captured;
    EXPECT_EQ(memlake_torch_release(memory, 0, nullptr), 1);
    EXPECT_EQ(memlake_torch_release(memory, 0, nullptr), 1);
    EXPECT_EQ(memlake_torch_find(memory, 0, nullptr), MEMLAKE_ERROR_DRIVER_GONE);
    EXPECT(memlake_torch_pool(0, kConf) == nullptr);
    EXPECT_EQ(captured.text(), "");
  });
  EXPECT_EQ(ended, (test::Ended{.code = 0}));
  EXPECT_EQ(stats_of(pool).num_frees, 0u);
  EXPECT_EQ(memlake_torch_release(memory, 0, nullptr), 1);
}

PROCESS_TEST(memory_of_a_view_of_stitched_chunks_has_no_base) {
  memlake_pool* const pool =
      memlake_torch_pool(0, "policy:stitch,driver:emulated,memory:256MiB,backing:none,limit:60MiB");
  void* const a = memlake_pool_allocate(pool, 20 * kMiB, nullptr);
  void* const b = memlake_pool_allocate(pool, 20 * kMiB, nullptr);
  void* const c = memlake_pool_allocate(pool, 20 * kMiB, nullptr);
  EXPECT_EQ(memlake_torch_release(a, 0, nullptr), 1);
  EXPECT_EQ(memlake_torch_release(c, 0, nullptr), 1);
  void* const view = memlake_pool_allocate(pool, 40 * kMiB, nullptr);
  EXPECT(view != nullptr);
  const CapturedStderr captured;
  std::size_t size = 0;
  EXPECT(memlake_torch_base(view, &size) == nullptr);
  EXPECT(memlake_torch_base(b, &size) == nullptr);
}

}  // namespace
}  // namespace memlake
