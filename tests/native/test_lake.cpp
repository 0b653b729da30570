// The policy lake: chunks that move, parts that are borrowed, several devices, faults, addresses.

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "driver/transfer.hpp"
#include "lakes.hpp"
#include "policies/segments/segment_space.hpp"
#include "policies/torch/torch_rules.hpp"

namespace memlake {
namespace {

using test::ask;
using test::calls;
using test::counter;
using test::expect_sound;
using test::Leases;
using test::make_lake;
using test::OwnStream;
using test::scatter;
using test::scatter_in_larger_chunks;
using test::take;
using test::take_most;

constexpr Bytes kUnlimited = test::kUnlimited;
constexpr Bytes kTotal = MiB * 512;
const char* const kDevice = "devices=1,memory=512MiB,backing=none";

std::shared_ptr<LivePool> make_expandable(const std::shared_ptr<Device>& device) {
  return LivePool::make(
      {device},
      [](const auto& on, EventSource& events, std::shared_ptr<Budget> budget) {
        auto policy = std::make_unique<TorchRules>(TorchOptions{.is_expandable = true});
        return std::make_unique<SegmentSpace>(on.front(), std::move(policy), events, std::move(budget));
      },
      kUnlimited);
}

TEST(scattered_free_chunks_serve_a_request_without_new_memory) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  const Leases live = scatter(*pool, MiB * 32);
  const std::uint64_t created = calls(*pool, "cuMemCreate");
  const Lease large = take(*pool, MiB * 160);
  EXPECT(counter(*pool, "moved_chunks") > 0);
  EXPECT_EQ(calls(*pool, "cuMemCreate"), created);
  EXPECT_EQ(calls(*pool, "cuMemRelease"), 0u);
  EXPECT_EQ(pool->figures().stats().host_waits, 0u);
  expect_sound(*pool);
}

TEST(expandable_segments_make_memory_anew_for_the_same_request) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_expandable(devices[0]);
  const Leases live = scatter(*pool, MiB * 40);
  const std::uint64_t created = calls(*pool, "cuMemCreate");
  const std::uint64_t retries = pool->figures().stats().pool.retries;  // the one that ended the filling
  const Lease large = take(*pool, MiB * 160);
  EXPECT(calls(*pool, "cuMemCreate") > created);
  EXPECT_EQ(pool->figures().stats().pool.retries, retries + 1);
}

TEST(a_first_part_is_borrowed_and_given_back) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  const Leases live = scatter_in_larger_chunks(*pool, MiB * 7);
  const std::size_t mappings = test::ledger_count("mappings");
  {
    const Lease large = take_most(*pool, kTotal);
    EXPECT(counter(*pool, "borrowed_pieces") > 0);
    EXPECT(test::ledger_count("mappings") > mappings);  // the lent parts are mapped twice
    EXPECT(pool->figures().held() <= kTotal);
    expect_sound(*pool);
  }
  expect_sound(*pool);
  EXPECT_EQ(test::ledger_count("mappings"), counter(*pool, "chunks"));  // one home each, and no view is left
  // What was lent is free where it is at home.
  const Lease again = take(*pool, MiB * 7);
  EXPECT(counter(*pool, "moved_chunks") > 0);
  expect_sound(*pool);
}

TEST(nothing_is_borrowed_where_a_chunk_cannot_be_mapped_twice) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, {.aliasing = "none"});
  const Leases live = scatter(*pool, MiB * 33);
  const std::size_t mappings = test::ledger_count("mappings");
  const Lease large = take_most(*pool, kTotal);
  EXPECT(large.size() > MiB * 66);
  EXPECT(counter(*pool, "moved_chunks") > 0);
  EXPECT_EQ(counter(*pool, "borrowed_pieces"), 0u);
  EXPECT_EQ(test::ledger_count("mappings"), counter(*pool, "chunks"));
  EXPECT(test::ledger_count("mappings") >= mappings);
  expect_sound(*pool);
}

TEST(what_is_live_keeps_its_bytes_while_memory_moves) {
  for (const char* aliasing : {"none", "whole", "prefix"}) {
    const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=host");
    const std::shared_ptr<Device> kept = devices[0];  // it lives as long as somebody shares it
    Device& device = *kept;
    const auto pool = make_lake({devices[0]}, {.aliasing = aliasing});
    std::map<std::uint8_t, std::unique_ptr<Lease>> live;
    std::mt19937 random(7);
    std::uint8_t next = 0;
    const auto free_one = [&] { live.erase(std::next(live.begin(), static_cast<long>(random() % live.size()))); };
    for (int i = 0; i < 300; ++i) {
      const Bytes size = KiB * (1100 + random() % (i % 10 == 9 ? 60'000 : 5'000));
      while (live.contains(next)) ++next;
      while (!live.contains(next)) {
        if (auto lease = ask(*pool, size)) {
          fill(device, lease->address(), next, lease->size(), nullptr);
          live[next] = std::make_unique<Lease>(*std::move(lease));
        } else {
          free_one();
        }
      }
    }
    EXPECT(counter(*pool, "moved_chunks") > 10);
    EXPECT(std::string_view(aliasing) != "prefix" || counter(*pool, "borrowed_pieces") > 0);
    expect_sound(*pool);
    for (const auto& [value, lease] : live) {
      std::vector<std::uint8_t> bytes(lease->size().count);
      copy_to_host(device, bytes.data(), lease->address(), lease->size(), nullptr);
      stream_synchronize(device, nullptr);
      EXPECT(std::ranges::all_of(bytes, [value = value](std::uint8_t byte) { return byte == value; }));
    }
  }
}

TEST(nothing_that_queued_work_uses_is_unmapped) {
  for (const char* aliasing : {"none", "whole", "prefix"}) {
    const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
    const std::shared_ptr<Device> kept = devices[0];  // it lives as long as somebody shares it
    Device& device = *kept;
    const std::size_t violations = test::ledger_count("violations");
    const auto pool = make_lake({devices[0]}, {.aliasing = aliasing});
    const OwnStream slow(devices[0]);
    const OwnStream other(devices[0]);
    std::mt19937 random(3);
    Leases live;
    for (int i = 0; i < 400; ++i) {
      const OwnStream& stream = random() % 2 == 0 ? slow : other;
      if (auto lease = ask(*pool, KiB * (100 + random() % 60000), stream.name())) {
        fill(device, lease->address(), 1, lease->size(), stream.owner->handle());  // waits in its queue
        live.push_back(std::make_unique<Lease>(*std::move(lease)));
      }
      while (live.size() > 10) {
        std::swap(live[random() % live.size()], live.back());
        live.pop_back();
      }
      if (random() % 4 == 0) static_cast<void>(test::emulator().emulator().step(other.owner->handle(), 1));
      if (random() % 16 == 0) static_cast<void>(test::emulator().emulator().step(slow.owner->handle(), 1));
      expect_sound(*pool);
      if (test::running_test_has_failed()) return;
    }
    EXPECT(counter(*pool, "moved_chunks") > 10);
    EXPECT_EQ(test::ledger_count("violations"), violations);
  }
}

TEST(a_driver_that_has_less_than_its_device_should_have_is_believed) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  auto hog = std::make_unique<PhysicalChunk>(PhysicalChunk::create(devices[0], MiB * 256, false));
  const Leases live = scatter(*pool, MiB * 32);
  EXPECT_EQ(live.size(), 4u);
  EXPECT(!ask(*pool, MiB * 160).has_value());
  {
    const Lease large = take(*pool, MiB * 100);
    EXPECT(counter(*pool, "moved_chunks") > 0);
    expect_sound(*pool);
  }
  hog.reset();  // somebody else gave it back
  const Lease larger = take(*pool, MiB * 300);
  expect_sound(*pool);
}

TEST(a_limit_is_the_budget_and_may_change) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, {}, MiB * 256);
  const Leases live = scatter(*pool, MiB * 32);
  EXPECT_EQ(live.size(), 4u);
  EXPECT(!ask(*pool, MiB * 160).has_value());
  take(*pool, MiB * 128).close();
  EXPECT(counter(*pool, "moved_chunks") > 0);
  pool->settings().set_limit(MiB * 384);
  take(*pool, MiB * 160).close();
  EXPECT(pool->figures().held() <= MiB * 384);
  const Bytes held = pool->figures().held();
  pool->settings().set_limit(MiB * 64);  // takes nothing away
  EXPECT(pool->figures().held() == held);
  EXPECT(!ask(*pool, held).has_value());
  EXPECT(pool->figures().held() == held);
  expect_sound(*pool);
}

TEST(a_limit_below_what_is_held_takes_nothing_away) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  const Leases live = scatter(*pool, MiB * 32);
  const Bytes held = pool->figures().held();
  pool->settings().set_limit(MiB * 64);
  const Lease large = take(*pool, MiB * 160);  // more than the limit, but all of it was there
  EXPECT(pool->figures().held() <= held);
  EXPECT(counter(*pool, "moved_chunks") > 0);
  expect_sound(*pool);
}

/// Asks for more while a slow stream still uses a block that was freed; returns what is still pending then.
Bytes pending_after(Bytes other, Bytes freed) {
  const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
  const auto pool = make_lake({devices[0]});
  const OwnStream slow(devices[0]);
  const Lease rest = take(*pool, other);
  const Bytes held = [&] {
    Lease block = take(*pool, freed);
    fill(*devices[0], block.address(), 1, block.size(), slow.owner->handle());  // waits in its queue
    block.record_use(slow.name());
    return pool->figures().held();
  }();
  const Lease again = take(*pool, freed - MiB);
  const LiveStats stats = pool->figures().stats();
  EXPECT_EQ(stats.host_waits, 0u);
  EXPECT((stats.pool.held.now == held) == (stats.pool.active.now == stats.pool.allocated.now));
  expect_sound(*pool);
  return stats.pool.active.now - stats.pool.allocated.now;
}

TEST(pending_memory_is_left_to_its_stream_until_most_of_the_budget_is_in_use) {
  EXPECT(pending_after(MiB * 100, MiB * 40) == MiB * 40);  // there is room: nobody waits for anybody
  EXPECT(pending_after(MiB * 400, MiB * 40) == Bytes{0});  // there would still be, but no longer for long
}

TEST(the_host_waits_for_streams_only_before_a_request_would_be_refused) {
  const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
  const std::shared_ptr<Device> device = devices[0];
  const auto pool = make_lake({device});
  const OwnStream slow(device);
  Leases live;
  while (auto lease = ask(*pool, MiB * 7, slow.name())) live.push_back(std::make_unique<Lease>(*std::move(lease)));
  for (std::size_t i = 0; i < live.size(); i += 2) {
    fill(*device, live[i]->address(), 1, live[i]->size(), slow.owner->handle());
    live[i].reset();
  }
  const Bytes free = MiB * 7 * (live.size() - live.size() / 2);
  EXPECT(ask(*pool, MiB * 100).has_value());  // there is more: the streams wait on the device
  EXPECT_EQ(pool->figures().stats().host_waits, 0u);
  // All that is free cannot be had in one piece. The host has waited when it says so, and nothing is left to wait for.
  EXPECT(!ask(*pool, free).has_value());
  const std::uint64_t waits = pool->figures().stats().host_waits;
  EXPECT(waits > 0);
  EXPECT(!ask(*pool, free).has_value());
  EXPECT_EQ(pool->figures().stats().host_waits, waits);
  expect_sound(*pool);
}

TEST(trimming_gives_free_chunks_back_and_keeps_what_is_asked_for) {
  for (const char* aliasing : {"none", "whole", "prefix"}) {
    const test::EmulatedDevices devices(kDevice);
    const test::Holdings before;
    auto pool = make_lake({devices[0]}, {.aliasing = aliasing});
    {
      const Leases live = scatter(*pool, MiB * 33);
      take_most(*pool, kTotal).close();
      pool->trim(MiB * 400);
      EXPECT(pool->figures().held() >= MiB * 400 && pool->figures().held() < kTotal);
      expect_sound(*pool);
      pool->trim({0});
      EXPECT(pool->figures().held() < MiB * 400 && pool->figures().held() >= MiB * 33 * live.size());
      expect_sound(*pool);
    }
    pool->trim({0});
    EXPECT_EQ(pool->figures().held().count, 0u);
    EXPECT_EQ(counter(*pool, "reserved_addresses"), 0u);
    expect_sound(*pool);
    pool.reset();
    EXPECT_EQ(test::Holdings(), before);
  }
}

TEST(a_buffer_larger_than_a_device_lies_on_two) {
  const test::EmulatedDevices devices("devices=2,memory=8GiB,backing=none");
  const auto pool = make_lake({devices[0], devices[1]});
  const Lease large = take(*pool, GiB * 10);
  const auto pieces = large.pieces();
  EXPECT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces.front().first, 0u);
  EXPECT_EQ(pieces.front().second.count, (GiB * 8).count);
  EXPECT_EQ(pieces.back().first, 1u);
  EXPECT_EQ(pieces.back().second.count, (GiB * 2).count);
  expect_sound(*pool);
  EXPECT(!ask(*pool, GiB * 7).has_value());
  const Lease rest = take(*pool, GiB * 5);
  EXPECT_EQ(rest.pieces().front().first, 1u);
  expect_sound(*pool);
}

TEST(the_driver_says_on_which_of_several_devices_a_bare_stream_works) {
  const test::EmulatedDevices devices("devices=3,memory=64MiB,backing=none");
  const auto pool = make_lake({devices[0], devices[1]}, {.placement = Placement::near});
  const OwnStream first(devices[0]);
  const OwnStream second(devices[1]);
  const OwnStream foreign(devices[2]);
  const std::shared_ptr<Device> on_second = devices[1];
  const Address memory = pool->by_address().allocate(MiB * 8, second.owner->handle());
  EXPECT(on_second->free_memory() < MiB * 64);
  pool->by_address().record_use(memory, first.owner->handle());
  pool->by_address().free(memory, second.owner->handle());
  expect_sound(*pool);
  EXPECT_ERROR(invalid_argument, static_cast<void>(pool->by_address().allocate(MiB, foreign.owner->handle())));
}

TEST(a_handle_that_names_no_stream_is_refused_before_it_is_noted) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  const Address memory = pool->by_address().allocate(MiB, nullptr);
  const CUstream gone = OwnStream(devices[0]).owner->handle();
  EXPECT_ERROR(config, pool->by_address().record_use(memory, gone));
  pool->by_address().free(memory);  // nothing waits for it
  EXPECT_EQ(pool->figures().stats().pending_count, 0u);
}

/// The most that scattered memory can be gathered to.
Bytes most_gathered(LakeOptions options) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, options);
  const Leases live = scatter(*pool, MiB * 5);
  return take_most(*pool, kTotal).size();
}

/// Lets the nth driver call of one gathering request fail; returns whether that request came so far.
bool gather_with_fault(LakeOptions options, Bytes most, std::uint64_t nth, CUresult fault) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, options);
  Leases live = scatter(*pool, MiB * 5);
  const bool is_reached = test::ask_with_fault(*pool, most, nth, fault);
  expect_sound(*pool);
  // Nothing that counts is lost: what was in use is, and the rest serves again.
  live.pop_back();
  static_cast<void>(take(*pool, MiB * 5));
  expect_sound(*pool);
  return is_reached;
}

TEST(a_fault_at_any_driver_call_of_a_gathering_loses_nothing) {
  for (const char* aliasing : {"none", "whole", "prefix"})
    for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      const LakeOptions options{.aliasing = aliasing};
      const Bytes most = most_gathered(options);
      std::uint64_t nth = 1;
      while (gather_with_fault(options, most, nth, fault) && !test::running_test_has_failed()) ++nth;
      EXPECT(nth > 10);
    }
}

TEST(addresses_stay_few_over_many_moves) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]});
  std::mt19937 random(11);
  Leases live;
  std::uint64_t moved = 0;
  std::uint64_t most = 0;
  while (moved < 200'000 && !test::running_test_has_failed()) {
    for (int i = 0; i < 200; ++i) {
      if (auto lease = ask(*pool, KiB * (1500 + random() % 90'000)))
        live.push_back(std::make_unique<Lease>(*std::move(lease)));
      std::swap(live[random() % live.size()], live.back());
      if (live.size() > 7) live.pop_back();
    }
    const std::uint64_t now = counter(*pool, "moved_chunks");
    EXPECT(now > moved);
    moved = now;
    most = std::max(most, counter(*pool, "reserved_addresses"));
    EXPECT(most <= (kTotal * 8).count);
    expect_sound(*pool);
  }
}

}  // namespace
}  // namespace memlake
