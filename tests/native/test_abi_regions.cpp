// memlake_torch_functions(): functions for a region of PyTorch in one pool; and the counts of what is outside a pool.

#include <array>
#include <string>

#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

using Malloc = void* (*)(ssize_t, int, void*);
using Free = void (*)(void*, ssize_t, int, void*);

struct Region {
  Malloc allocate = nullptr;
  Free free = nullptr;
};

memlake_pool* make_pool() {
  memlake_pool* const pool = memlake_pool_create("lake,driver:emulated,devices:1,memory:256MiB,backing:none", 0);
  if (pool == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  return pool;
}

Region make_region(memlake_pool* pool) {
  std::array<void*, 2> functions{};
  EXPECT_EQ(memlake_torch_functions(pool, &functions[0], &functions[1]), MEMLAKE_OK);
  return {reinterpret_cast<Malloc>(functions[0]), reinterpret_cast<Free>(functions[1])};
}

std::uint64_t allocated_in(memlake_pool* pool) {
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
  return stats.allocated;
}

PROCESS_TEST(each_region_takes_the_memory_of_its_own_pool) {
  memlake_pool* const first = make_pool();
  memlake_pool* const second = make_pool();
  const Region one = make_region(first);
  const Region two = make_region(second);
  EXPECT(one.allocate != two.allocate);

  void* const memory = one.allocate(static_cast<ssize_t>(3 * kMiB), 0, nullptr);

  EXPECT(memory != nullptr);
  EXPECT_EQ(allocated_in(first), 3 * kMiB);
  EXPECT_EQ(allocated_in(second), 0U);
  one.free(memory, 0, 0, nullptr);
  EXPECT_EQ(allocated_in(first), 0U);
}

PROCESS_TEST(a_region_without_memory_answers_null) {
  const Region region = make_region(make_pool());

  EXPECT(region.allocate(static_cast<ssize_t>(512 * kMiB), 0, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
  EXPECT(region.allocate(0, 0, nullptr) == nullptr);
}

PROCESS_TEST(an_ended_region_gives_nothing_and_still_frees) {
  memlake_pool* const pool = make_pool();
  const Region region = make_region(pool);
  void* const memory = region.allocate(static_cast<ssize_t>(kMiB), 0, nullptr);

  EXPECT_EQ(memlake_torch_end_functions(reinterpret_cast<void*>(region.allocate)), MEMLAKE_OK);

  EXPECT(region.allocate(static_cast<ssize_t>(kMiB), 0, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CLOSED);
  region.free(memory, 0, 0, nullptr);
  EXPECT_EQ(allocated_in(pool), 0U);
  // The place is free now, so it cannot be ended again.
  EXPECT_EQ(memlake_torch_end_functions(reinterpret_cast<void*>(region.allocate)), MEMLAKE_ERROR_INVALID_ARGUMENT);
}

PROCESS_TEST(there_are_places_for_64_regions_and_they_come_back) {
  memlake_pool* const pool = make_pool();
  std::array<Region, 64> regions;
  for (Region& region : regions) region = make_region(pool);
  std::array<void*, 2> functions{};
  EXPECT_EQ(memlake_torch_functions(pool, &functions[0], &functions[1]), MEMLAKE_ERROR_CONFIG);

  EXPECT_EQ(memlake_torch_end_functions(reinterpret_cast<void*>(regions[7].allocate)), MEMLAKE_OK);

  EXPECT(make_region(pool).allocate == regions[7].allocate);
}

PROCESS_TEST(bad_arguments_of_regions_are_refused) {
  void* function = nullptr;
  EXPECT_EQ(memlake_torch_functions(nullptr, &function, &function), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_torch_functions(make_pool(), &function, nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_torch_end_functions(nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
}

PROCESS_TEST(without_pytorch_its_exceptions_cannot_be_thrown) { EXPECT_EQ(memlake_torch_can_throw(), 0); }

memlake_pool_counts_t counts_of(memlake_pool* pool) {
  memlake_pool_counts_t counts{};
  counts.struct_size = sizeof(counts);
  EXPECT_EQ(memlake_pool_counts(pool, &counts), MEMLAKE_OK);
  return counts;
}

void tell_outside(memlake_pool* pool, std::int64_t bytes) {
  memlake_pool_counts_t outside{};
  outside.struct_size = sizeof(outside);
  outside.allocated_bytes[0].current = outside.allocated_bytes[2].current = bytes;
  EXPECT_EQ(memlake_pool_count_outside(pool, &outside), MEMLAKE_OK);
}

PROCESS_TEST(a_peak_is_that_of_the_pool_and_of_what_is_outside) {
  constexpr std::int64_t kLarge = 10 * static_cast<std::int64_t>(kMiB);
  memlake_pool* const pool = make_pool();
  EXPECT_EQ(memlake_pool_count_by_size(pool), MEMLAKE_OK);
  void* const memory = memlake_pool_allocate(pool, 10 * kMiB, nullptr);
  tell_outside(pool, 3 * kLarge);
  EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
  tell_outside(pool, kLarge);

  // 10 here and 30 outside at the same time; never 10 + 30 + 10.
  EXPECT_EQ(counts_of(pool).allocated_bytes[0].peak, 4 * kLarge);
  EXPECT_EQ(counts_of(pool).allocated_bytes[0].current, 0);
  EXPECT_EQ(counts_of(pool).allocated_bytes[1].peak, 0);
  EXPECT_EQ(memlake_pool_reset_peaks(pool), MEMLAKE_OK);
  EXPECT_EQ(counts_of(pool).allocated_bytes[0].peak, kLarge);
}

PROCESS_TEST(what_is_outside_needs_counts_and_a_whole_struct) {
  memlake_pool* const pool = make_pool();
  memlake_pool_counts_t outside{};
  outside.struct_size = sizeof(outside);
  EXPECT_EQ(memlake_pool_count_outside(pool, &outside), MEMLAKE_ERROR_CONFIG);
  EXPECT_EQ(memlake_pool_count_by_size(pool), MEMLAKE_OK);
  outside.struct_size = 8;
  EXPECT_EQ(memlake_pool_count_outside(pool, &outside), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_pool_count_outside(pool, nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace memlake
