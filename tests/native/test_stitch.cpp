// The policy `stitch`: what serves a request in which order, what is cached and evicted, and that nothing is lost.

#include "policies/stitch/stitch_space.hpp"

#include <algorithm>
#include <vector>

#include "emulated.hpp"
#include "policies/torch/torch_rules.hpp"
#include "random_program.hpp"
#include "replay/trace_events.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::OwnStream;
using test::RandomProgram;
using test::take;

constexpr Bytes kUnlimited = TorchOptions::kUnlimited;
const char* const kDevice = "devices=1,memory=256MiB,backing=none";

std::shared_ptr<LivePool> make_pool(const test::EmulatedDevices& devices, const StitchOptions& options) {
  const auto make_space = [&](const Devices& on, EventSource& events, std::shared_ptr<Budget> budget) {
    return std::make_unique<StitchSpace>(on.front(), options, events, std::move(budget));
  };
  return LivePool::make({devices[0]}, make_space, kUnlimited);
}

/// A pool on a device of 256 MiB whose space a test may look into. Stitches from 32 MiB on.
struct Stitching {
  test::EmulatedDevices devices{kDevice};
  TraceEvents events{EventMode::lag, 1000};
  Pool pool;
  StitchSpace& space;

  explicit Stitching(const StitchOptions& options = {.frag_limit = MiB * 32}, Bytes limit = kUnlimited)
      : pool(std::make_unique<StitchSpace>(devices[0], options, events, std::make_shared<Budget>(limit)), events),
        space(static_cast<StitchSpace&>(pool.spaces().policy())) {}
  ~Stitching() { expect_sound(); }

  void expect_sound() const {
    if (const auto broken = pool.find_broken_invariant()) test::fail(*broken, std::source_location::current());
  }
  [[nodiscard]] const StitchCounters& counters() const { return space.stitch_counters(); }
  [[nodiscard]] Bytes held() const { return space.ledger().budget()->held.now; }

  Block* allocate(Bytes size, StreamId stream = 0) {
    Block* block = pool.allocate(size, stream);
    EXPECT(block != nullptr);
    expect_sound();
    return block;
  }
  void free(Block* block) {
    pool.free(block);
    expect_sound();
  }
  /// Leaves `count` free blocks of `size` each, none beside another; returns the blocks between them.
  std::vector<Block*> scatter(std::size_t count, Bytes size, StreamId stream = 0) {
    std::vector<Block*> all;
    for (std::size_t i = 0; i < 2 * count; ++i) all.push_back(allocate(size, stream));
    std::vector<Block*> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % 2 == 0) {
        free(all[i]);
      } else {
        kept.push_back(all[i]);
      }
    }
    return kept;
  }
};

bool is_view(const Block& block) { return dynamic_cast<const StitchedView*>(block.memory) != nullptr; }

TEST(an_exact_block_is_taken_before_a_larger_one_is_split) {
  Stitching s;
  Block* large = s.allocate(MiB * 24);
  Block* wall = s.allocate(MiB * 12);
  Block* exact = s.allocate(MiB * 20);
  const Address place = exact->address;
  s.free(large);
  s.free(exact);
  EXPECT(s.allocate(MiB * 19)->address == place);  // rounded up to whole chunks
  EXPECT_EQ(s.counters().stitches, 0u);
  s.free(wall);
}

TEST(a_block_that_is_too_large_is_split_and_joined_again) {
  Stitching s;
  Block* block = s.allocate(MiB * 64);
  const Address place = block->address;
  s.free(block);
  const Bytes held = s.held();
  Block* front = s.allocate(MiB * 20);
  Block* back = s.allocate(MiB * 44);
  EXPECT(front->address == place);
  EXPECT(back->address == place + MiB * 20);
  s.free(front);
  s.free(back);
  EXPECT(s.allocate(MiB * 64)->address == place);
  EXPECT_EQ(s.held().count, held.count);
}

TEST(scattered_free_blocks_serve_what_no_cache_of_segments_could) {
  for (const bool is_stitch : {false, true}) {
    const test::EmulatedDevices devices(kDevice);
    TraceEvents events(EventMode::immediate, 0);
    std::unique_ptr<Space> space;
    if (is_stitch) {
      space = std::make_unique<StitchSpace>(devices[0], StitchOptions{}, events, std::make_shared<Budget>(kUnlimited));
    } else {
      space = std::make_unique<SegmentSpace>(devices[0], std::make_unique<TorchRules>(TorchOptions{}), events,
                                             std::make_shared<Budget>(kUnlimited));
    }
    Pool pool(std::move(space), events);
    std::vector<Block*> blocks;
    for (int i = 0; i < 4; ++i) {
      // Two blocks in one segment each: what is freed cannot be given back by itself.
      Block* both = pool.allocate(MiB * 60, 0);
      pool.free(both);
      blocks.push_back(pool.allocate(MiB * 30, 0));
      blocks.push_back(pool.allocate(MiB * 30, 0));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i]);
    EXPECT_EQ(pool.allocate(MiB * 120, 0) != nullptr, is_stitch);
    EXPECT(!pool.find_broken_invariant());
  }
}

TEST(a_stitched_view_has_the_chunks_of_its_parts_and_is_counted_once) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  const Bytes held = s.held();
  const std::size_t chunks = test::ledger_count("chunks");
  Block* block = s.allocate(MiB * 34);
  EXPECT(is_view(*block));
  EXPECT_EQ(s.held().count, held.count);
  EXPECT_EQ(test::ledger_count("chunks"), chunks);
  EXPECT_EQ(s.counters().stitches, 1u);
  EXPECT_EQ(s.counters().in_use.now.count, (MiB * 34).count);
  Bytes live{0};
  s.space.for_each([&](const Block& each) {
    if (each.state == BlockState::live) live = live + each.size;
  });
  EXPECT_EQ(live.count, (MiB * 34 + MiB * 36).count);
  s.free(block);
  EXPECT_EQ(s.counters().in_use.now.count, 0u);
}

TEST(a_cached_view_serves_the_next_request_without_a_driver_call) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, StitchOptions{.frag_limit = MiB * 32});
  std::vector<Lease> leases;
  for (int i = 0; i < 6; ++i) leases.push_back(take(*pool, MiB * 12));
  for (std::size_t i = 0; i < 6; i += 2) leases[i].close();
  Lease first = take(*pool, MiB * 36);
  const Address place = first.address();
  first.close();
  const auto calls = pool->figures().stats().calls;
  auto again = pool->lease_at_once(MiB * 36);
  EXPECT(again.has_value());
  EXPECT(again->address() == place);
  EXPECT(pool->figures().stats().calls == calls);
  expect_sound(*pool);
  const auto counters = pool->figures().stats().policy_counters;
  const auto hits =
      std::ranges::find(counters, std::string("stitch_hits"), [](const Counter& c) { return std::string(c.first); });
  EXPECT(hits != counters.end() && std::get<std::uint64_t>(hits->second) == 1);
}

TEST(a_view_is_shadowed_while_a_part_of_it_is_in_use) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  Block* view = s.allocate(MiB * 36);
  const Address place = view->address;
  s.free(view);
  Block* part = s.allocate(MiB * 12);
  EXPECT(!is_view(*part));
  Block* other = s.allocate(MiB * 36);  // stitched with new memory
  EXPECT(other->address != place);
  EXPECT_EQ(s.counters().hits, 0u);
  s.free(part);
  s.free(other);
  Block* again = s.allocate(MiB * 36);
  EXPECT(is_view(*again));
  EXPECT_EQ(s.counters().hits, 1u);
  EXPECT_EQ(s.counters().stitches, 2u);
}

TEST(a_cached_view_serves_a_smaller_request_with_its_front) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  Block* whole = s.allocate(MiB * 36);
  const Address place = whole->address;
  s.free(whole);
  Block* front = s.allocate(MiB * 20);  // no primitive block is as large
  EXPECT(front->address == place);
  EXPECT_EQ(front->size.count, (MiB * 20).count);
  EXPECT_EQ(s.counters().hits, 1u);
  EXPECT_EQ(s.counters().in_use.now.count, (MiB * 20).count);
  Block* rest = s.allocate(MiB * 12);  // what the front leaves is free
  EXPECT(!is_view(*rest));
  EXPECT_EQ(s.counters().stitches, 1u);
  s.free(front);
  Block* again = s.allocate(MiB * 24);
  EXPECT(again->address == place || s.counters().stitches == 2);
  s.free(rest);
}

TEST(memory_behind_a_used_front_can_be_given_back) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  s.free(s.allocate(MiB * 36));
  Block* front = s.allocate(MiB * 20);
  EXPECT(is_view(*front));
  const Bytes held = s.held();
  s.pool.release_cached();
  s.expect_sound();
  EXPECT_EQ(s.held().count, (held - MiB * 16).count);
  EXPECT_EQ(front->memory->range.size.count, (MiB * 20).count);
  s.free(front);
  EXPECT(s.allocate(MiB * 20) == front);  // what is left is a view like any other
}

TEST(new_memory_is_only_what_the_free_blocks_lack) {
  Stitching s;
  const auto kept = s.scatter(2, MiB * 12);
  const Bytes held = s.held();
  Block* block = s.allocate(MiB * 40);
  EXPECT(is_view(*block));
  EXPECT_EQ(s.held().count, (held + MiB * 16).count);
}

TEST(requests_below_the_fragmentation_limit_get_new_memory_while_there_is_any) {
  Stitching s({.frag_limit = MiB * 200});
  const auto kept = s.scatter(4, MiB * 12);
  const Bytes held = s.held();
  Block* block = s.allocate(MiB * 40);
  EXPECT(!is_view(*block));
  EXPECT_EQ(s.held().count, (held + MiB * 40).count);
  // 256 MiB are 96 of before, 40, and 120 more; then stitching is all there is.
  Block* rest = s.allocate(MiB * 120);
  Block* last = s.allocate(MiB * 24);
  EXPECT(is_view(*last));
  s.free(block);
  s.free(rest);
}

TEST(the_caps_evict_the_least_recently_used_views) {
  Stitching s({.frag_limit = MiB * 4, .reuse_limit = 1, .max_views = 2});
  const auto kept = s.scatter(4, MiB * 12);
  const auto round_trip = [&](Bytes size) {
    Block* block = s.allocate(size);
    EXPECT(is_view(*block));
    const Address place = block->address;
    s.free(block);
    return place;
  };
  const Address a = round_trip(MiB * 20);
  round_trip(MiB * 28);
  EXPECT(round_trip(MiB * 20) == a);
  round_trip(MiB * 36);  // the view of 28 MiB goes
  EXPECT_EQ(s.counters().evictions, 1u);
  EXPECT(round_trip(MiB * 20) == a);
  EXPECT_EQ(s.space.views().size(), 2u);
  EXPECT_EQ(s.counters().hits, 2u);
}

TEST(bytes_and_mappings_are_capped_too_and_what_is_in_use_stays) {
  for (const StitchOptions& options :
       {StitchOptions{.frag_limit = MiB * 4, .reuse_limit = 1, .max_view_bytes = MiB * 40},
        StitchOptions{.frag_limit = MiB * 4, .reuse_limit = 1, .max_mappings = 20}}) {
    Stitching s(options);
    const auto kept = s.scatter(5, MiB * 12);
    Block* used = s.allocate(MiB * 20);
    EXPECT(is_view(*used));
    Block* other = s.allocate(MiB * 16);
    EXPECT(is_view(*other));
    s.free(other);
    Block* third = s.allocate(MiB * 18);
    EXPECT(is_view(*third));
    EXPECT_EQ(s.counters().evictions, 1u);
    EXPECT(!is_view(*s.allocate(MiB * 14)));  // would be too much beside what is in use
    EXPECT(s.space.views().size() == 2);
  }
}

TEST(memory_of_other_streams_and_small_requests_is_given_back_before_a_request_is_refused) {
  Stitching s;
  Block* small = s.allocate(KiB * 100);
  s.free(small);
  Block* other = s.allocate(MiB * 150, 1);
  Block* part = s.allocate(MiB * 50, 1);
  s.free(other);
  Block* block = s.allocate(MiB * 200);  // with what the other stream and the small requests had
  EXPECT(block != nullptr);
  EXPECT_EQ(s.pool.figures().stats().ooms, 0u);
  s.free(part);
  s.free(block);
  // And a small request takes a chunk from large memory.
  Block* all = s.allocate(MiB * 256);
  s.free(all);
  EXPECT(s.allocate(KiB) != nullptr);
}

TEST(what_is_pending_is_waited_for_and_then_found) {
  Stitching s;
  Block* block = s.allocate(MiB * 200);
  s.pool.record_use(block, 1);
  s.free(block);
  EXPECT_EQ(s.pool.figures().stats().active.now.count, (MiB * 200).count);
  EXPECT(s.allocate(MiB * 100) != nullptr);
  EXPECT_EQ(s.events.host_waits, 1u);
  EXPECT_EQ(s.held().count, (MiB * 200).count);
}

TEST(a_refused_request_leaves_views_and_memory_as_they_were) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  s.free(s.allocate(MiB * 36));
  const Bytes held = s.held();
  EXPECT(s.pool.allocate(GiB, 0) == nullptr);
  s.expect_sound();
  EXPECT_EQ(s.held().count, held.count);
  EXPECT_EQ(s.space.views().size(), 1u);
  EXPECT(!s.pool.shortage().tried.empty());
}

TEST(trimming_evicts_the_views_over_what_goes) {
  Stitching s;
  const auto kept = s.scatter(3, MiB * 12);
  s.free(s.allocate(MiB * 36));
  s.pool.trim(s.held() - MiB * 5);
  s.expect_sound();
  EXPECT_EQ(s.held().count, (MiB * 68).count);  // whole chunks, and no less than asked for
  EXPECT_EQ(s.counters().evictions, 1u);
  s.pool.release_cached();
  s.expect_sound();
  EXPECT_EQ(s.held().count, (MiB * 36).count);
}

TEST(chunks_leave_a_segment_that_is_partly_used_and_its_addresses_are_used_again) {
  const std::size_t mappings = test::ledger_count("mappings");
  Stitching s;
  s.free(s.allocate(MiB * 24));
  Block* front = s.allocate(MiB * 12);
  Block* back = s.allocate(MiB * 12);
  const Address place = back->address;
  EXPECT(place == front->end());
  s.free(back);
  s.pool.release_cached();
  s.expect_sound();
  EXPECT_EQ(s.held().count, (MiB * 12).count);
  EXPECT_EQ(test::ledger_count("mappings"), mappings + 6);
  EXPECT(s.allocate(MiB * 12)->address == place);
  EXPECT_EQ(s.space.segment_count(), 1u);
}

TEST(a_fault_at_any_call_of_a_stitch_changes_nothing_that_is_live) {
  FailingDriver& failing = test::emulator().failing();
  for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
    std::uint64_t faults = 0;
    for (std::uint64_t nth = 1; nth < 120; ++nth) {  // more than there are calls
      Stitching s({.frag_limit = MiB * 8, .max_views = 1});
      const auto kept = s.scatter(3, MiB * 12);
      s.free(s.allocate(MiB * 20));  // is evicted by the next
      failing.fail(std::nullopt, nth, fault);
      Block* block = nullptr;
      try {
        block = s.pool.allocate(MiB * 40, 0);  // stitches with growth
      } catch (const Error& error) {
        ++faults;
        // A driver without addresses says the same as one without memory.
        EXPECT(fault == CUDA_ERROR_UNKNOWN || error.kind() == ErrorKind::address_exhaustion);
      }
      failing.clear();
      s.expect_sound();
      if (block != nullptr) s.free(block);
      for (Block* each : kept) s.free(each);
      EXPECT(s.allocate(MiB * 240) != nullptr);
      if (test::running_test_has_failed()) return;
    }
    // A lack of memory or addresses is an answer, not an error.
    EXPECT(faults > 0 || fault == CUDA_ERROR_OUT_OF_MEMORY);
  }
}

TEST(random_programs_on_three_streams_keep_every_invariant_under_tight_caps) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const test::EmulatedDevices devices("devices=1,memory=72MiB,backing=none");
    const StitchOptions options{.frag_limit = MiB * (seed % 3 * 8), .max_views = 4 + seed, .max_mappings = 40};
    const auto pool = make_pool(devices, options);
    RandomProgram program(pool, devices[0], seed);
    for (int i = 0; i < 1500 && !test::running_test_has_failed(); ++i) {
      program.step();
      expect_sound(*pool);
    }
    const auto stats = pool->figures().stats();
    EXPECT(stats.pool.allocations > 300);
    EXPECT(std::get<std::uint64_t>(stats.policy_counters[0].second) > 3);
  }
}

TEST(a_closed_pool_leaves_no_view_behind) {
  const test::EmulatedDevices devices(kDevice);
  const test::Holdings before;
  const auto pool = make_pool(devices, StitchOptions{.frag_limit = MiB * 4});
  {
    std::vector<Lease> leases;
    for (int i = 0; i < 6; ++i) leases.push_back(take(*pool, MiB * 12));
    for (std::size_t i = 0; i < 6; i += 2) leases[i].close();
    take(*pool, MiB * 36).close();
  }
  EXPECT(std::get<std::uint64_t>(pool->figures().stats().policy_counters[0].second) == 1);
  pool->close();
  EXPECT_EQ(test::Holdings(), before);
}

}  // namespace
}  // namespace memlake
