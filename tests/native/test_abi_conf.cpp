// What a configuration may say, and what is said about one that makes no sense.

#include <string>
#include <utility>
#include <vector>

#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

memlake_pool* make_pool(const std::string& more) {
  return memlake_pool_create(("driver:emulated,memory:1GiB,backing:none" + more).c_str(), 0);
}

PROCESS_TEST(a_configuration_that_makes_no_sense_is_refused_with_its_reason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"polcy:caching", "unknown key 'polcy' in a configuration; hint: did you mean policy?"},
      {"polcy:caching", "known: policy, limit, driver, devices, memory, backing, spill, aliasing"},
      {"policy:best",
       "no policy is named 'best'; hint: known: lake, caching, expandable, stitch, direct, driver, or keys"},
      {"cacheing", "no policy is named 'cacheing'; hint: did you mean caching?"},
      {"limit:1GiB,stitch", "cannot read 'stitch'"},
      {"policy:\x1b[31m", "no policy is named '\\x1b[31m'"},
      {"driver:/\x1b[31m", "got '/\\x1b[31m'"},
      {"policy:", "cannot read"},
      {"policy:caching;limit:5", "no policy is named 'caching;limit:5'; hint: known"},
      {",", "cannot read"},
      {":5", "cannot read"},
      {"limit:lots", "limit must be a size such as 4GiB"},
      {"limit:-5", "limit must be a size"},
      {"limit:5XB", "limit must be a size"},
      {"limit:101%", "from 0% to 100%"},
      {"limit:9999999999GiB", "at most 9223372036854775807"},
      {"limit:1.5", "a whole number of bytes"},
      {"limit:1.2.3G", "limit must be a size"},
      {"limit:0.00000000000000000000001G", "a whole number of bytes"},
      {"limit:99999999999999999999999999", "at most 9223372036854775807"},
      {"max_split_size_mb:1.5", "a whole number of MiB"},
      {"max_split_size_mb:19", "max_split_size_mb must be at least large_segment_size_mb, 20, got 19"},
      {"large_segment_size_mb:10", "more than 10"},
      {"max_non_split_rounding_mb:1", "at least large_segment_size_mb"},
      {"garbage_collection_threshold:1", "between 0 and 1"},
      {"garbage_collection_threshold:0", "between 0 and 1"},
      {"garbage_collection_threshold:nan", "between 0 and 1"},
      {"per_process_memory_fraction:1.5", "from 0 to 1"},
      {"lake,per_process_memory_fraction:0.5", "is an option of policy:caching and policy:expandable"},
      {"expandable_segments:true", "True or False"},
      {"policy:caching,expandable_segments:True", "contradict"},
      {"policy:direct,max_split_size_mb:64",
       "max_split_size_mb is an option of policy:caching and policy:expandable, not of policy:direct"},
      {"backend:cudaMallocAsync", "cannot be used: only native"},
      {"policy:driver,reuse_allow_opportunistic:1", "True or False"},
      {"policy:caching,aliasing:none", "an option of policy:lake"},
      {"aliasing:no", "auto, none, whole or prefix"},
      {"spill:disk", "spill must be host"},
      {"frag_limit:64MiB", "frag_limit is an option of policy:stitch"},
      {"policy:stitch,reuse_limit:0.5", "reuse_limit must be a number from 1 to 1000000"},
      {"policy:stitch,reuse_limit:nan", "reuse_limit must be a number"},
      {"policy:stitch,chunk_size:1MiB", "chunk_size must be whole MiB and at least 2 MiB"},
      {"policy:stitch,max_views:-1", "max_views must be a whole number of at least 0"},
      {"policy:stitch,max_views:99999999999999999999", "max_views must be a whole number"},
      {"policy:stitch,max_view_bytes:0", "max_view_bytes must be more than 0"},
      {"policy:stitch,spill:host", "spill is an option of policy:lake"},
      {"roundup_power2_divisions:3", "a power of two"},
      {"roundup_power2_divisions:[3:1]", "powers of two of MiB"},
      {"roundup_power2_divisions:[4:1,]", "a power of two"},
      {"roundup_power2_divisions:[4:1", "a power of two"},
      {"driver:cude", "driver must be cuda, emulated, or the path"},
      {"driver:/nowhere/libcuda.so", "/nowhere/libcuda.so"},
      {"memory:1GiB", "memory is about the emulator"},
      {"driver:emulated,devices:0", "devices must be"},
      {"driver:emulated,backing:disk", "backing must be host or none"},
      {"driver:emulated,memory:1", "memory"},
  };
  for (const auto& [conf, reason] : cases) {
    EXPECT(memlake_pool_create(conf.c_str(), 0) == nullptr);
    if (std::string(memlake_last_error()).find(reason) == std::string::npos)
      test::fail(conf + " is answered with: " + memlake_last_error(), std::source_location::current());
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CONFIG);
  }
}

PROCESS_TEST(a_device_that_is_not_there_is_refused) {
  for (const int device : {-1, 2}) {
    EXPECT(memlake_pool_create("driver:emulated,devices:2,memory:64MiB", device) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_INVALID_ARGUMENT);
  }
  EXPECT(memlake_pool_create("driver:emulated,devices:2,memory:64MiB", 1) != nullptr);
}

PROCESS_TEST(what_a_device_has_no_room_for_is_spilled_where_that_is_asked_for) {
  EXPECT(memlake_pool_allocate(make_pool(",limit:64MiB"), 100 * kMiB, nullptr) == nullptr);
  memlake_pool* const pool = make_pool(",limit:64MiB,spill:host");
  void* const large = memlake_pool_allocate(pool, 100 * kMiB, nullptr);
  EXPECT(large != nullptr);
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(memlake_pool_stats(pool, &stats), 0);
  EXPECT_EQ(stats.held, 64 * kMiB);
  EXPECT_EQ(stats.held_on_host, 36 * kMiB);
  EXPECT_EQ(stats.held_on_host_peak, 36 * kMiB);
  EXPECT(memlake_pool_allocate(pool, std::size_t{1} << 47, nullptr) == nullptr);
  EXPECT(std::string(memlake_last_error()).find("and 36 MiB on the host") != std::string::npos);
}

PROCESS_TEST(stitch_takes_its_options) {
  // With chunks of 32 MiB a request of 33 MiB takes two of them.
  memlake_pool* const pool = make_pool(",policy:stitch,chunk_size:32MiB,frag_limit:0,max_views:8,reuse_limit:2.5");
  EXPECT(memlake_pool_allocate(pool, 33 * kMiB, nullptr) != nullptr);
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(memlake_pool_stats(pool, &stats), 0);
  EXPECT_EQ(stats.held, 64 * kMiB);
}

PROCESS_TEST(a_policy_is_named_first_or_anywhere_and_keys_of_torch_mean_torch) {
  constexpr const char* emulated = "driver:emulated,memory:1GiB,backing:none";
  EXPECT(memlake_pool_create((std::string("stitch,chunk_size:32MiB,") + emulated).c_str(), 0) != nullptr);
  EXPECT(memlake_pool_create((std::string(emulated) + ",policy:stitch,chunk_size:32MiB").c_str(), 0) != nullptr);
  EXPECT(make_pool(",policy:driver,reuse_allow_opportunistic:False") != nullptr);
  EXPECT(make_pool(",pinned_num_register_threads:8,backend:native") != nullptr);
  // caching takes a segment of 20 MiB for 9 MiB; lake would take less.
  memlake_pool* const caching = make_pool(",per_process_memory_fraction:0.5");
  EXPECT(memlake_pool_allocate(caching, 9 * kMiB, nullptr) != nullptr);
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(memlake_pool_stats(caching, &stats), 0);
  EXPECT_EQ(stats.held, 20 * kMiB);
  EXPECT_EQ(stats.limit, 512 * kMiB);
}

PROCESS_TEST(a_limit_is_kept) {
  const std::string zeros(64, '0');
  for (const std::string& limit :
       {std::string(",limit:64MiB"), std::string(", limit : 6.25%"), std::string(",per_process_memory_fraction:0.0625"),
        std::string(",limit:0.0625G"), ",limit:0.0625" + zeros + "G"}) {
    memlake_pool* const pool = make_pool(limit);
    memlake_pool_stats_t stats{};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
    EXPECT_EQ(stats.limit, 64 * kMiB);
    EXPECT(memlake_pool_allocate(pool, 65 * kMiB, nullptr) == nullptr);
    EXPECT(memlake_pool_allocate(pool, 40 * kMiB, nullptr) != nullptr);
  }
}

/// What is held for one request of so many bytes.
std::uint64_t held_for(const std::string& more, std::size_t size, std::uint64_t* allocated = nullptr) {
  memlake_pool* const pool = make_pool(more);
  EXPECT(memlake_pool_allocate(pool, size, nullptr) != nullptr);
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
  if (allocated != nullptr) *allocated = stats.allocated;
  return stats.held;
}

PROCESS_TEST(torchs_options_do_what_they_do_in_torch) {
  EXPECT_EQ(held_for(",policy:caching", 5 * kMiB), 20 * kMiB);
  EXPECT_EQ(held_for(",policy:caching,large_segment_size_mb:32", 5 * kMiB), 32 * kMiB);
  EXPECT_EQ(held_for(",expandable_segments:False", 5 * kMiB), 20 * kMiB);
  EXPECT_EQ(held_for(",policy:direct", 5 * kMiB), 6 * kMiB);   // in granules
  EXPECT_EQ(held_for(",policy:stitch", 5 * kMiB), 20 * kMiB);  // grows as torch does
  std::uint64_t allocated = 0;
  held_for(",policy:expandable,roundup_power2_divisions:4", 5 * kMiB - 512, &allocated);
  EXPECT_EQ(allocated, 5 * kMiB);
  held_for(",roundup_power2_divisions:[4:2,>:1],", 4 * kMiB + 512, &allocated);
  EXPECT_EQ(allocated, 6 * kMiB);
}

}  // namespace
}  // namespace memlake
