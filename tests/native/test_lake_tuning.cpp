// One program for each constant of LakeTuning that shows what the constant is for: it behaves worse with another value.

#include <algorithm>
#include <random>

#include "emulated.hpp"
#include "emulated_streams.hpp"
#include "lakes.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::ask;
using test::counter;
using test::Leases;
using test::OwnStream;

constexpr Bytes kTotal = GiB * 12;
const LakeOptions kNone{.aliasing = "none"};

std::shared_ptr<LivePool> make(const test::EmulatedDevices& devices, const LakeTuning& tuning) {
  return LivePool::make(
      {devices[0]},
      [tuning](const auto& on, EventSource& events, std::shared_ptr<Budget> budget) {
        return std::make_unique<LakeSpace>(on, kNone, events, std::move(budget), tuning);
      },
      test::kUnlimited);
}

LakeTuning with(auto LakeTuning::* member, auto value) {
  LakeTuning tuning;
  tuning.*member = value;
  return tuning;
}

/// How many of 64 pools on a device of 1 TiB get a block; the emulator has 32 TiB of addresses.
std::size_t served_pools(const LakeTuning& tuning) {
  const test::EmulatedDevices devices("devices=1,memory=1TiB,backing=none");
  std::vector<std::shared_ptr<LivePool>> pools;
  Leases live;
  while (pools.size() < 64) {
    pools.push_back(make(devices, tuning));
    auto lease = ask(*pools.back(), MiB * 3);
    if (!lease) break;
    live.push_back(std::make_unique<Lease>(*std::move(lease)));
  }
  return live.size();
}

TEST(pools_that_come_late_find_addresses) {
  EXPECT_EQ(served_pools({}), 64u);
  // Ten have first ranges of three times the device; then they take half as much, as often as necessary.
  const std::size_t greedy = served_pools(with(&LakeTuning::generous, Budget::kUnlimited));
  EXPECT(greedy > 12 && greedy < 64);
  EXPECT(served_pools(with(&LakeTuning::lean_ranges, std::uint64_t{1})) < 64);
}

/// The program of tests/unit/pool/test_gather.py: allocates and frees on half of the device, fills it, frees a tenth of
/// the blocks at random, and asks for one block. Returns the share of the free bytes that it gets, in twentieths.
unsigned gathered_twentieths(const LakeTuning& tuning, std::uint64_t least_mib, std::uint64_t most_mib) {
  unsigned best = 0;
  for (unsigned share = 8; share <= 20; ++share) {
    const test::EmulatedDevices devices("devices=1,memory=12GiB,backing=none");
    const auto pool = make(devices, tuning);
    std::mt19937 random(4);
    const auto size = [&] { return KiB * (1024 * least_mib + random() % (1024 * (most_mib - least_mib))); };
    Leases live;
    Bytes used{0};
    const auto drop = [&](std::size_t i) {
      used = used - live[i]->size();
      std::swap(live[i], live.back());
      live.pop_back();
    };
    const auto add = [&] {
      auto lease = ask(*pool, size());
      if (!lease) return false;
      used = used + lease->size();
      live.push_back(std::make_unique<Lease>(*std::move(lease)));
      return true;
    };
    for (int i = 0; i < 3000; ++i) {
      if (used.count < kTotal.count / 2 && (live.empty() || random() % 100 < 55)) {
        static_cast<void>(add());
      } else {
        drop(random() % live.size());
      }
    }
    while (add()) {
    }
    for (std::size_t i = live.size(); i > 0; --i)
      if (random() % 10 == 0) drop(i - 1);
    const Bytes free = kTotal - used;
    if (ask(*pool, {free.count / 20 * share})) best = share;
  }
  return best;
}

/// The number of chunks after a pool was filled with blocks of one size.
std::uint64_t chunks_for(const LakeTuning& tuning, Bytes size) {
  const test::EmulatedDevices devices("devices=1,memory=12GiB,backing=none");
  const auto pool = make(devices, tuning);
  Leases live;
  for (Bytes used{0}; used + size <= kTotal; used = used + size)
    live.push_back(std::make_unique<Lease>(*ask(*pool, size)));
  return counter(*pool, "chunks");
}

TEST(tuning_smallest_chunk_saves_handles_of_small_blocks_and_larger_ones_gather_less) {
  EXPECT(chunks_for({}, MiB * 16) * 2 <= chunks_for(with(&LakeTuning::smallest_chunk, MiB * 4), MiB * 16));
  EXPECT(gathered_twentieths({}, 3, 60) > gathered_twentieths(with(&LakeTuning::smallest_chunk, MiB * 20), 3, 60));
}

TEST(tuning_largest_chunk_saves_handles_of_large_blocks_and_larger_ones_gather_less) {
  EXPECT(chunks_for({}, MiB * 200) * 2 <= chunks_for(with(&LakeTuning::largest_chunk, MiB * 10), MiB * 200));
  EXPECT(gathered_twentieths({}, 20, 200) > gathered_twentieths(with(&LakeTuning::largest_chunk, MiB * 200), 20, 200));
}

TEST(tuning_chunks_per_block_lets_reused_memory_gather) {
  EXPECT(gathered_twentieths({}, 20, 200) >
             gathered_twentieths(with(&LakeTuning::chunks_per_block, std::uint64_t{1}), 20, 200) ||
         chunks_for({}, MiB * 40) > chunks_for(with(&LakeTuning::chunks_per_block, std::uint64_t{1}), MiB * 40));
}

TEST(tuning_most_chunks_per_block_bounds_the_handles_of_a_giant) {
  EXPECT(chunks_for({}, GiB * 12) <= 128);
  EXPECT(chunks_for(with(&LakeTuning::most_chunks_per_block, UINT64_MAX), GiB * 12) > 600);
}

/// Small requests that stay, each after a large one that goes. Returns whether the large bytes can be had in one piece.
bool gathers_between_small_ones(const LakeTuning& tuning) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none");
  const auto pool = make(devices, tuning);
  Leases small;
  Leases large;
  for (int i = 0; i < 24; ++i) {
    large.push_back(std::make_unique<Lease>(*ask(*pool, MiB * 40)));
    small.push_back(std::make_unique<Lease>(*ask(*pool, KiB * 64)));
  }
  large.clear();
  return ask(*pool, MiB * 1016).has_value();
}

TEST(tuning_largest_small_keeps_small_requests_out_of_large_chunks) {
  EXPECT(gathers_between_small_ones({}));
  EXPECT(!gathers_between_small_ones(with(&LakeTuning::largest_small, Bytes{0})));
}

/// The held bytes after a request whose size is pending on a stream, with more than 60 % of the budget in use.
Bytes held_with_pending_memory(const LakeTuning& tuning) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none,streams=manual");
  const std::shared_ptr<Device> device = devices[0];
  const auto pool = make(devices, tuning);
  const OwnStream other(device);
  const Lease kept = *ask(*pool, MiB * 700);
  {
    Lease used_elsewhere = *ask(*pool, MiB * 100);
    fill(*device, used_elsewhere.address(), 1, MiB, other.owner->handle());  // stays in its queue
    used_elsewhere.record_use(other.name());
  }
  const Lease next = *ask(*pool, MiB * 100);
  return pool->figures().stats().pool.held.now;
}

TEST(tuning_crowded_uses_pending_memory_before_new_memory) {
  EXPECT(held_with_pending_memory({}) < MiB * 850);
  EXPECT(held_with_pending_memory(with(&LakeTuning::crowded, 2.0)) > MiB * 850);
}

struct Addresses {
  double over_memory = 0;  ///< the most that were reserved, in multiples of the device's memory
  std::uint64_t ranges = 0;
};

/// A program of four streams that moves many chunks.
Addresses addresses_over_many_moves(const LakeTuning& tuning) {
  const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none");
  const auto pool = make(devices, tuning);
  const OwnStream streams[] = {OwnStream(devices[0]), OwnStream(devices[0]), OwnStream(devices[0])};
  std::mt19937 random(11);
  Leases live;
  Addresses most;
  while (counter(*pool, "moved_chunks") < 20'000) {
    const auto stream = random() % 20;
    const StreamName name = stream < 3 ? streams[stream].name() : StreamName{};
    if (auto lease = ask(*pool, KiB * (random() % 3 == 0 ? 100 : 1500 + random() % 90'000), name))
      live.push_back(std::make_unique<Lease>(*std::move(lease)));
    std::swap(live[random() % live.size()], live.back());
    if (live.size() > 7) live.pop_back();
    const auto reserved = static_cast<double>(counter(*pool, "reserved_addresses"));
    most.over_memory = std::max(most.over_memory, reserved / static_cast<double>((MiB * 512).count));
    most.ranges = std::max(most.ranges, pool->figures().stats().segment_count);
  }
  return most;
}

TEST(tuning_of_ranges_keeps_them_few_and_below_eight_times_the_memory) {
  const Addresses usual = addresses_over_many_moves({});
  EXPECT(usual.over_memory <= 8);
  EXPECT(addresses_over_many_moves(with(&LakeTuning::first_range, std::uint64_t{1})).ranges > usual.ranges);
  EXPECT(addresses_over_many_moves(with(&LakeTuning::first_range, std::uint64_t{6})).over_memory > 8);
  EXPECT(addresses_over_many_moves(with(&LakeTuning::later_ranges, std::uint64_t{1})).over_memory >
         usual.over_memory + 1);
  EXPECT(addresses_over_many_moves(with(&LakeTuning::small_ranges, std::uint64_t{1})).over_memory >
         usual.over_memory + 1);
}

}  // namespace
}  // namespace memlake
