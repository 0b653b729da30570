// A program that watches a pool through the C functions: counts by size, blocks and events.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::expect_ok;
using test::make_stream;
using test::stats_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kPolicies[] = {"lake",
                                     "lake,aliasing:none",
                                     "lake,aliasing:whole",
                                     "lake,aliasing:prefix",
                                     "caching",
                                     "expandable",
                                     "stitch",
                                     "direct",
                                     "driver"};

memlake_pool* make_pool(const std::string& policy, const std::string& more = "") {
  const std::string conf = "policy:" + policy + ",driver:emulated,devices:2,memory:256MiB,backing:none" + more;
  memlake_pool* const pool = memlake_pool_create(conf.c_str(), 0);
  if (pool == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  return pool;
}

memlake_pool_counts_t counts_of(memlake_pool* pool) {
  memlake_pool_counts_t counts{};
  counts.struct_size = sizeof(counts);
  expect_ok(memlake_pool_counts(pool, &counts));
  EXPECT_EQ(counts.struct_size, sizeof(counts));
  return counts;
}

std::vector<memlake_block_t> blocks_of(memlake_pool* pool) {
  std::vector<memlake_block_t> blocks;
  const auto add = [](const memlake_block_t* block, void* user) {
    static_cast<std::vector<memlake_block_t>*>(user)->push_back(*block);
    return 0;
  };
  expect_ok(memlake_pool_visit_blocks(pool, add, &blocks));
  return blocks;
}

/// Ranges of addresses, joined where they touch.
class Ranges {
 public:
  /// False if a part is there already.
  bool add(std::uint64_t begin, std::uint64_t size) {
    const std::uint64_t end = begin + size;
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < end) return false;
    if (next != ranges_.begin() && std::prev(next)->second > begin) return false;
    ranges_[begin] = end;
    return true;
  }
  /// False if a part is not there.
  bool remove(std::uint64_t begin, std::uint64_t size) {
    const std::uint64_t end = begin + size;
    while (begin < end) {
      auto at = ranges_.upper_bound(begin);
      if (at == ranges_.begin()) return false;
      --at;
      const auto [from, to] = *at;
      if (to <= begin) return false;
      ranges_.erase(at);
      if (from < begin) ranges_[from] = begin;
      if (to > end) ranges_[end] = to;
      begin = std::min(to, end);
    }
    return true;
  }
  [[nodiscard]] bool contains(std::uint64_t begin, std::uint64_t size) const {
    Ranges copy = *this;
    return copy.remove(begin, size);
  }
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> joined() const {
    std::map<std::uint64_t, std::uint64_t> joined;
    for (const auto& [begin, end] : ranges_) {
      if (!joined.empty() && joined.rbegin()->second == begin) {
        joined.rbegin()->second = end;
      } else {
        joined[begin] = end;
      }
    }
    return joined;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [begin, end] : ranges_) sum += end - begin;
    return sum;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

/// What the events of a pool say.
struct Told {
  Ranges mapped;
  std::map<std::uint64_t, std::uint64_t> freed;  // completed frees, by address: their sizes
  std::size_t events = 0;
  std::size_t moves = 0;
  bool is_consistent = true;

  static void take(const memlake_event_t* event, void* user) {
    Told& told = *static_cast<Told*>(user);
    ++told.events;
    EXPECT_EQ(event->device, 0);
    switch (event->kind) {
      case MEMLAKE_EVENT_SEGMENT_ALLOC:
      case MEMLAKE_EVENT_SEGMENT_MAP:
        told.is_consistent &= told.mapped.add(event->address, event->size);
        break;
      case MEMLAKE_EVENT_SEGMENT_FREE:
      case MEMLAKE_EVENT_SEGMENT_UNMAP:
        told.is_consistent &= told.mapped.remove(event->address, event->size);
        ++told.moves;
        break;
      case MEMLAKE_EVENT_FREE_COMPLETED:
        told.is_consistent &= told.mapped.contains(event->address, event->size);
        told.freed[event->address] = event->size;
        break;
      default:
        told.is_consistent = false;
    }
  }
};

void expect_sums(const memlake_pool_counts_t& counts, std::source_location where = std::source_location::current()) {
  for (const auto* count :
       {counts.allocations, counts.segments, counts.active, counts.inactive_splits, counts.allocated_bytes,
        counts.held_bytes, counts.active_bytes, counts.inactive_split_bytes, counts.requested_bytes}) {
    if (count[1].current + count[2].current != count[0].current) test::fail("the classes are not the whole", where);
    if (count[1].allocated + count[2].allocated < count[0].allocated) test::fail("a total is too large", where);
    for (int i = 0; i < 3; ++i) {
      if (count[i].current < 0 || count[i].peak < count[i].current) test::fail("a peak is too small", where);
      if (count[i].peak > count[0].peak) test::fail("the peak of a class is above that of all", where);
    }
  }
}

/// The figures that both functions give.
void expect_agreement(memlake_pool* pool, std::source_location where = std::source_location::current()) {
  const memlake_pool_counts_t counts = counts_of(pool);
  const memlake_pool_stats_t stats = stats_of(pool);
  expect_sums(counts, where);
  const auto same = [&](const memlake_count_t& count, std::uint64_t now, std::uint64_t peak, const char* name) {
    if (static_cast<std::uint64_t>(count.current) != now || static_cast<std::uint64_t>(count.peak) != peak)
      test::fail(std::string(name) + ": " + std::to_string(count.current) + " of " + std::to_string(count.peak) +
                     ", expected " + std::to_string(now) + " of " + std::to_string(peak),
                 where);
  };
  same(counts.allocated_bytes[0], stats.allocated, stats.allocated_peak, "allocated");
  same(counts.active_bytes[0], stats.active, stats.active_peak, "active");
  same(counts.requested_bytes[0], stats.requested, stats.requested_peak, "requested");
  same(counts.held_bytes[0], stats.held, stats.held_peak, "held");
  EXPECT_EQ(static_cast<std::uint64_t>(counts.allocations[0].allocated), stats.num_allocations);
  EXPECT_EQ(static_cast<std::uint64_t>(counts.allocations[0].freed), stats.num_frees);
  EXPECT_EQ(counts.num_ooms, stats.num_ooms);
  EXPECT_EQ(counts.num_retries, stats.num_retries);
}

/// The counts of a pool agree with a walk over its blocks.
void expect_blocks_agree(memlake_pool* pool, std::source_location where = std::source_location::current()) {
  const memlake_pool_counts_t counts = counts_of(pool);
  std::int64_t live[3] = {};
  std::int64_t active_bytes[3] = {};
  for (const memlake_block_t& block : blocks_of(pool)) {
    if (block.state == MEMLAKE_BLOCK_FREE) continue;
    const int kind = block.requested <= kMiB ? 1 : 2;
    for (const int i : {0, kind}) {
      live[i] += block.state == MEMLAKE_BLOCK_LIVE ? 1 : 0;
      active_bytes[i] += static_cast<std::int64_t>(block.size);
    }
  }
  for (int i = 0; i < 3; ++i) {
    if (counts.allocations[i].current != live[i]) test::fail("other allocations than the blocks", where);
    if (counts.active_bytes[i].current != active_bytes[i]) test::fail("other active bytes than the blocks", where);
  }
}

PROCESS_TEST(events_and_blocks_tell_the_same_memory_at_every_step_of_a_random_program) {
  for (const char* policy : kPolicies) {
    const bool is_driver = std::string(policy) == "driver";  // keeps its free memory to itself
    memlake_pool* const pool = make_pool(policy, ",limit:150MiB");
    expect_ok(memlake_pool_count_by_size(pool));
    Told told;
    expect_ok(memlake_pool_observe(pool, &Told::take, &told));
    const std::vector<void*> streams{nullptr, make_stream(), make_stream()};
    std::vector<void*> live;
    std::mt19937 random(7);
    for (int i = 0; i < 1500; ++i) {
      if (random() % 5 < 3) {
        const std::size_t size = 1 + random() % (std::size_t{1} << (9 + random() % 17));
        void* const block = memlake_pool_allocate(pool, size, streams[random() % streams.size()]);
        if (block != nullptr) {
          live.push_back(block);
          EXPECT(told.mapped.contains(reinterpret_cast<std::uint64_t>(block), size));
          if (random() % 4 == 0) expect_ok(memlake_pool_record_stream(pool, block, streams[random() % streams.size()]));
        }
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        expect_ok(memlake_pool_free(pool, live.back()));
        live.pop_back();
      }
      if (random() % 100 == 0) expect_ok(memlake_pool_trim(pool, random() % (150 * kMiB)));
      if (i % 50 != 0) continue;
      Ranges shown;
      for (const memlake_block_t& block : blocks_of(pool)) {
        EXPECT(shown.add(block.address, block.size));
        EXPECT(block.address >= block.segment && block.address + block.size <= block.segment + block.segment_size);
      }
      EXPECT(shown.joined() == told.mapped.joined());
      if (!is_driver) EXPECT_EQ(told.mapped.bytes(), stats_of(pool).held);
      if (!is_driver) expect_agreement(pool);
      expect_blocks_agree(pool);
      EXPECT(told.is_consistent);
    }
    for (void* block : live) expect_ok(memlake_pool_free(pool, block));
    EXPECT(told.moves > 0);
    const std::size_t events = told.events;
    expect_ok(memlake_pool_observe(pool, nullptr, nullptr));
    expect_ok(memlake_pool_trim(pool, 0));
    expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, 10 * kMiB, nullptr)));
    EXPECT_EQ(told.events, events);  // no program is told any more
    expect_ok(memlake_pool_trim(pool, 0));
    if (!is_driver) expect_agreement(pool);
    EXPECT_EQ(counts_of(pool).allocations[0].current, 0);
    EXPECT_EQ(counts_of(pool).held_bytes[0].current, 0);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(counts_begin_with_what_is_live_already) {
  for (const char* policy : {"lake", "caching", "expandable", "stitch"}) {
    memlake_pool* const pool = make_pool(policy);
    memlake_pool_counts_t counts{};
    counts.struct_size = sizeof(counts);
    EXPECT_EQ(memlake_pool_counts(pool, &counts), MEMLAKE_ERROR_CONFIG);
    void* const small = memlake_pool_allocate(pool, kMiB, nullptr);
    void* const large = memlake_pool_allocate(pool, kMiB + 1, nullptr);
    expect_ok(memlake_pool_count_by_size(pool));
    counts = counts_of(pool);
    expect_sums(counts);
    EXPECT_EQ(counts.allocations[1].current, 1);
    EXPECT_EQ(counts.allocations[2].current, 1);
    EXPECT_EQ(counts.allocations[0].allocated, 0);
    EXPECT_EQ(counts.requested_bytes[1].current, static_cast<std::int64_t>(kMiB));
    EXPECT_EQ(counts.requested_bytes[2].current, static_cast<std::int64_t>(kMiB + 1));
    EXPECT_EQ(static_cast<std::uint64_t>(counts.held_bytes[0].current), stats_of(pool).held);
    EXPECT(counts.held_bytes[1].current > 0 && counts.held_bytes[2].current > 0);
    EXPECT(counts.segments[1].current == 1 && counts.segments[2].current == 1);
    expect_ok(memlake_pool_free(pool, small));
    expect_ok(memlake_pool_free(pool, large));
    counts = counts_of(pool);
    EXPECT_EQ(counts.allocations[0].current, 0);
    EXPECT_EQ(counts.allocations[0].freed, 2);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(free_blocks_beside_used_ones_are_inactive_splits) {
  memlake_pool* const pool = make_pool("caching");
  expect_ok(memlake_pool_count_by_size(pool));
  void* const first = memlake_pool_allocate(pool, 3 * kMiB, nullptr);  // of a segment of 20 MiB
  memlake_pool_counts_t counts = counts_of(pool);
  EXPECT_EQ(counts.inactive_splits[2].current, 1);
  EXPECT_EQ(counts.inactive_split_bytes[2].current, static_cast<std::int64_t>(17 * kMiB));
  EXPECT_EQ(counts.inactive_splits[1].current, 0);
  EXPECT_EQ(counts.largest_free, 17 * kMiB);
  expect_ok(memlake_pool_free(pool, first));
  counts = counts_of(pool);
  EXPECT_EQ(counts.inactive_splits[0].current, 0);
  EXPECT_EQ(counts.inactive_splits[0].peak, 1);
  EXPECT_EQ(counts.inactive_split_bytes[0].peak, static_cast<std::int64_t>(17 * kMiB));
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(peaks_and_totals_are_reset_one_without_the_other) {
  memlake_pool* const pool = make_pool("expandable", ",limit:64MiB");
  expect_ok(memlake_pool_count_by_size(pool));
  void* const first = memlake_pool_allocate(pool, 40 * kMiB, nullptr);
  EXPECT(memlake_pool_allocate(pool, 100 * kMiB, nullptr) == nullptr);
  EXPECT_EQ(stats_of(pool).num_ooms, 1u);
  const std::uint64_t retries = stats_of(pool).num_retries;
  EXPECT(memlake_pool_try_allocate(pool, 100 * kMiB, nullptr) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(stats_of(pool).num_ooms, 1u);  // it was only tried
  EXPECT_EQ(stats_of(pool).num_retries, 2 * retries);
  expect_ok(memlake_pool_free(pool, first));
  void* const second = memlake_pool_try_allocate(pool, 2 * kMiB, nullptr);
  EXPECT(second != nullptr);
  EXPECT(counts_of(pool).num_device_allocations >= 2);
  expect_ok(memlake_pool_reset_totals(pool));
  memlake_pool_counts_t counts = counts_of(pool);
  EXPECT_EQ(counts.num_device_allocations, 0u);
  EXPECT_EQ(counts.num_device_frees, 0u);
  EXPECT_EQ(counts.num_ooms, 0u);
  EXPECT_EQ(counts.num_host_waits, 0u);
  EXPECT_EQ(counts.allocated_bytes[0].allocated, 0);
  EXPECT_EQ(counts.allocated_bytes[0].current, static_cast<std::int64_t>(2 * kMiB));
  EXPECT_EQ(counts.allocated_bytes[0].peak, static_cast<std::int64_t>(40 * kMiB));
  EXPECT_EQ(stats_of(pool).num_allocations, 0u);
  EXPECT_EQ(stats_of(pool).num_frees, 0u);
  EXPECT_EQ(stats_of(pool).num_ooms, 0u);
  expect_ok(memlake_pool_reset_peaks(pool));
  counts = counts_of(pool);
  EXPECT_EQ(counts.allocated_bytes[0].peak, static_cast<std::int64_t>(2 * kMiB));
  EXPECT_EQ(stats_of(pool).allocated_peak, 2 * kMiB);
  EXPECT_EQ(stats_of(pool).held_peak, stats_of(pool).held);
  expect_agreement(pool);
  expect_ok(memlake_pool_free(pool, second));
  EXPECT_EQ(stats_of(pool).num_frees, 1u);
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(blocks_are_visited_in_order_until_the_visitor_has_enough) {
  for (const char* policy : {"lake", "caching"}) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    void* const mine = memlake_pool_allocate(pool, 3 * kMiB + 5, stream);
    void* const small = memlake_pool_allocate(pool, 100, nullptr);
    const std::vector<memlake_block_t> blocks = blocks_of(pool);
    EXPECT(std::ranges::is_sorted(blocks, {}, &memlake_block_t::address));
    const auto found = std::ranges::find(blocks, reinterpret_cast<std::uint64_t>(mine), &memlake_block_t::address);
    EXPECT(found != blocks.end());
    EXPECT_EQ(found->requested, 3 * kMiB + 5);
    EXPECT(found->size >= found->requested);
    EXPECT(found->stream == stream);
    EXPECT_EQ(found->state, int{MEMLAKE_BLOCK_LIVE});
    EXPECT_EQ(found->is_small, 0);
    EXPECT_EQ(found->segment_is_mapped, std::string(policy) == "lake" ? 1 : 0);
    const auto other = std::ranges::find(blocks, reinterpret_cast<std::uint64_t>(small), &memlake_block_t::address);
    EXPECT(other != blocks.end() && other->is_small == 1 && other->stream == nullptr);
    int seen = 0;
    const auto stop = [](const memlake_block_t*, void* user) {
      ++*static_cast<int*>(user);
      return 17;
    };
    EXPECT_EQ(memlake_pool_visit_blocks(pool, stop, &seen), 17);
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(memlake_pool_visit_blocks(pool, nullptr, nullptr), MEMLAKE_ERROR_INVALID_ARGUMENT);
    expect_ok(memlake_pool_free(pool, mine));
    expect_ok(memlake_pool_free(pool, small));
    expect_ok(memlake_pool_destroy(pool));
    EXPECT_EQ(memlake_pool_visit_blocks(pool, stop, &seen), MEMLAKE_ERROR_CLOSED);
    EXPECT_EQ(memlake_pool_observe(pool, nullptr, nullptr), MEMLAKE_ERROR_CLOSED);
    EXPECT_EQ(memlake_pool_count_by_size(pool), MEMLAKE_ERROR_CLOSED);
    EXPECT_EQ(memlake_pool_reset_peaks(pool), MEMLAKE_ERROR_CLOSED);
    EXPECT_EQ(memlake_pool_reset_totals(pool), MEMLAKE_ERROR_CLOSED);
    EXPECT_EQ(memlake_pool_enable_peer(pool, 1), MEMLAKE_ERROR_CLOSED);
  }
}

PROCESS_TEST(a_peer_is_another_device_that_can_reach_the_memory) {
  memlake_pool* const pool = make_pool("lake");
  expect_ok(memlake_pool_enable_peer(pool, 1));
  expect_ok(memlake_pool_enable_peer(pool, 1));
  expect_ok(memlake_pool_enable_peer(pool, 0));  // its own
  EXPECT_EQ(memlake_pool_enable_peer(pool, 2), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_pool_enable_peer(pool, -1), MEMLAKE_ERROR_INVALID_ARGUMENT);
  expect_ok(memlake_pool_destroy(pool));
}

}  // namespace
}  // namespace memlake
