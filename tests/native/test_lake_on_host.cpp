// A lake with memory on the host: what the devices have no room for, or all of it.

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "driver/transfer.hpp"
#include "lakes.hpp"

namespace memlake {
namespace {

using test::ask;
using test::calls;
using test::expect_sound;
using test::Leases;
using test::make_lake;
using test::OwnStream;
using test::scatter;
using test::take;

const char* const kDevice = "devices=1,memory=64MiB,backing=host";
const LakeOptions kSpilling{.may_spill = true};

Bytes on_host(const LivePool& pool) { return pool.figures().stats().pool.held_on_host.now; }

/// Where its bytes lie: device or host, and MiB.
using Places = std::vector<std::pair<std::size_t, std::uint64_t>>;
Places places(const Lease& lease) {
  Places found;
  for (const auto& [device, size] : lease.pieces()) found.emplace_back(device, size.count / MiB.count);
  return found;
}

TEST(what_a_device_has_no_room_for_lies_on_the_host_in_the_same_range) {
  const test::EmulatedDevices devices(kDevice);
  const std::shared_ptr<Device> device = devices[0];
  const auto pool = make_lake({device}, kSpilling);
  const Lease large = take(*pool, MiB * 100);
  EXPECT(places(large) == (Places{{0, 64}, {1, 36}}));
  EXPECT(pool->figures().held() == MiB * 64);
  EXPECT(on_host(*pool) == MiB * 36);
  expect_sound(*pool);
  // One range: one fill and one copy go over all of it, and the CPU may touch it.
  fill(*device, large.address(), 42, large.size(), nullptr);
  std::vector<std::uint8_t> bytes(large.size().count);
  copy_to_host(*device, bytes.data(), large.address(), large.size(), nullptr);
  stream_synchronize(*device, nullptr);
  EXPECT(std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 42; }));
  EXPECT_EQ(std::memcmp(bytes.data(), reinterpret_cast<const void*>(large.address().value), bytes.size()), 0);
}

TEST(nothing_is_spilled_unless_that_was_asked_for_or_needed) {
  const test::EmulatedDevices devices(kDevice);
  const auto plain = make_lake({devices[0]});
  EXPECT(!ask(*plain, MiB * 100).has_value());
  const auto pool = make_lake({devices[0]}, kSpilling);
  const Leases live = [&] {
    Leases taken;
    for (int i = 0; i < 6; ++i) taken.push_back(std::make_unique<Lease>(take(*pool, MiB * 10)));
    return taken;
  }();
  EXPECT_EQ(on_host(*pool).count, 0u);
}

TEST(a_limit_counts_memory_of_devices_only) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, kSpilling, MiB * 32);
  const Lease large = take(*pool, MiB * 50);
  EXPECT(places(large) == (Places{{0, 32}, {1, 18}}));
  EXPECT(pool->figures().held() == MiB * 32);
}

TEST(memory_of_devices_is_handed_out_first) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, kSpilling);
  auto on_device = std::make_unique<Lease>(take(*pool, MiB * 60));
  auto small = std::make_unique<Lease>(take(*pool, MiB * 4));
  auto spilled = std::make_unique<Lease>(take(*pool, MiB * 20));
  EXPECT(places(*spilled) == (Places{{1, 20}}));
  const std::uint64_t before = calls(*pool);
  spilled.reset();  // free on the host ...
  expect_sound(*pool);
  {
    const Lease again = take(*pool, MiB * 20);  // ... serves again while the device is full, without a driver call
    EXPECT(places(again) == (Places{{1, 20}}));
    EXPECT_EQ(calls(*pool), before);
  }
  on_device.reset();
  const Lease later = take(*pool, MiB * 20);  // ... and not while a device has room
  EXPECT(places(later) == (Places{{0, 20}}));
  EXPECT(on_host(*pool) == MiB * 20);
  // Together they serve what neither could.
  const Lease both = take(*pool, MiB * 55);
  EXPECT_EQ(both.pieces().size(), 2u);
  EXPECT(on_host(*pool) == MiB * 20);
  expect_sound(*pool);
}

TEST(trimming_gives_memory_of_the_host_back_first) {
  const test::EmulatedDevices devices(kDevice);
  const test::Holdings before;
  auto pool = make_lake({devices[0]}, kSpilling);
  take(*pool, MiB * 100).close();
  EXPECT(pool->trim(MiB * 64) == MiB * 36);
  EXPECT(pool->figures().held() == MiB * 64);
  EXPECT_EQ(on_host(*pool).count, 0u);
  EXPECT(pool->figures().stats().pool.held_on_host.peak == MiB * 36);
  expect_sound(*pool);
  EXPECT(pool->trim({0}) == MiB * 64);
  pool.reset();
  EXPECT_EQ(test::Holdings(), before);
}

TEST(several_devices_are_full_before_anything_is_spilled) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=host");
  const auto pool = make_lake({devices[0], devices[1]}, kSpilling);
  const Lease large = take(*pool, MiB * 150);
  EXPECT(places(large) == (Places{{0, 64}, {1, 64}, {2, 22}}));
  for (const std::size_t on : {0u, 1u}) {
    const std::shared_ptr<Device> device = devices[on];
    fill(*device, large.address(), static_cast<std::uint8_t>(on), large.size(), nullptr);
    stream_synchronize(*device, nullptr);
  }
  expect_sound(*pool);
}

TEST(a_device_that_others_fill_makes_the_host_give_more) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_lake({devices[0]}, kSpilling);
  const PhysicalChunk hog = PhysicalChunk::create(devices[0], MiB * 40, false);
  const Lease large = take(*pool, MiB * 60);
  EXPECT(large.pieces().back().first == 1);
  EXPECT(pool->figures().held() + on_host(*pool) >= MiB * 60);
  expect_sound(*pool);
}

TEST(scattered_chunks_of_the_device_and_of_the_host_serve_one_request) {
  for (const char* aliasing : {"none", "whole", "prefix"}) {
    const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=none");
    const auto pool = make_lake({devices[0]}, {.aliasing = aliasing, .may_spill = true});
    Leases live;
    for (int i = 0; i < 20; ++i) live.push_back(std::make_unique<Lease>(take(*pool, MiB * 6)));
    const Bytes held = pool->figures().held() + on_host(*pool);
    for (std::size_t i = 0; i < live.size(); i += 2) live[i].reset();
    expect_sound(*pool);
    const Lease large = take(*pool, MiB * 50);
    EXPECT(pool->figures().held() + on_host(*pool) < held + MiB * 50);  // at least some was there already
    expect_sound(*pool);
  }
}

TEST(nothing_that_queued_work_uses_is_unmapped_when_memory_is_spilled) {
  for (const char* aliasing : {"none", "whole", "prefix"}) {
    const test::EmulatedDevices devices("devices=1,memory=128MiB,backing=none,streams=manual");
    const std::shared_ptr<Device> device = devices[0];
    const std::size_t violations = test::ledger_count("violations");
    const auto pool = make_lake({device}, {.aliasing = aliasing, .may_spill = true});
    const OwnStream slow(device);
    const OwnStream other(device);
    std::mt19937 random(5);
    Leases live;
    Bytes most{0};
    for (int i = 0; i < 300 && !test::running_test_has_failed(); ++i) {
      const OwnStream& stream = random() % 2 == 0 ? slow : other;
      Lease lease = take(*pool, KiB * (100 + random() % 40000), stream.name());
      fill(*device, lease.address(), 1, lease.size(), stream.owner->handle());
      live.push_back(std::make_unique<Lease>(std::move(lease)));
      while (live.size() > 8 + random() % 4) {
        std::swap(live[random() % live.size()], live.back());
        live.pop_back();
      }
      if (random() % 4 == 0) static_cast<void>(test::emulator().emulator().step(other.owner->handle(), 1));
      if (random() % 16 == 0) static_cast<void>(test::emulator().emulator().step(slow.owner->handle(), 1));
      if (random() % 64 == 0) pool->trim(MiB * 64);
      most = std::max(most, on_host(*pool));
      expect_sound(*pool);
    }
    EXPECT(most > MiB * 16);
    EXPECT_EQ(test::ledger_count("violations"), violations);
  }
}

/// Lets the nth driver call of one spilling request fail; returns whether that request came so far.
bool spill_with_fault(LakeOptions options, std::uint64_t nth, CUresult fault) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const auto pool = make_lake({devices[0], devices[1]}, options);
  Leases live;
  for (int i = 0; i < 30; ++i) live.push_back(std::make_unique<Lease>(take(*pool, MiB * 6)));
  for (std::size_t i = 0; i < live.size(); i += 2) live[i].reset();
  const bool is_reached = test::ask_with_fault(*pool, MiB * 150, nth, fault);
  expect_sound(*pool);
  static_cast<void>(take(*pool, MiB * 150));
  expect_sound(*pool);
  return is_reached;
}

TEST(a_fault_at_any_driver_call_of_a_spill_loses_nothing) {
  for (const char* aliasing : {"none", "whole", "prefix"})
    for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      std::uint64_t nth = 1;
      while (spill_with_fault({.aliasing = aliasing, .may_spill = true}, nth, fault) &&
             !test::running_test_has_failed())
        ++nth;
      EXPECT(nth > 10);
    }
}

TEST(a_lake_on_the_host_takes_nothing_from_a_device) {
  for (const Location location : {Location::host, Location::host_numa}) {
    const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
    const test::Holdings before;
    const std::shared_ptr<Device> device = devices[1];
    auto pool = make_lake({devices[0], device}, {.location = location}, MiB * 256);
    {
      const Lease lease = take(*pool, MiB * 100);  // more than a device has
      EXPECT(places(lease) == (Places{{2, 100}}));
      EXPECT_EQ(device->free_memory().count, (MiB * 64).count);
      fill(*device, lease.address(), 7, lease.size(), nullptr);
      stream_synchronize(*device, nullptr);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(lease.address().value);
      EXPECT(std::all_of(bytes, bytes + lease.size().count, [](std::uint8_t byte) { return byte == 7; }));
      EXPECT(!ask(*pool, MiB * 200).has_value());
      EXPECT(pool->figures().held() >= MiB * 100);
      EXPECT_EQ(on_host(*pool).count, 0u);  // nothing lies beside it
    }
    const Leases live = scatter(*pool, MiB * 5);
    EXPECT(pool->figures().held() <= MiB * 256);
    const Lease gathered = take(*pool, MiB * 60);
    // The CPU reaches all of it, also where a part is borrowed.
    std::memset(reinterpret_cast<void*>(gathered.address().value), 1, gathered.size().count);
    expect_sound(*pool);
  }
}

TEST(memory_of_the_host_is_given_back_after_its_device_was_closed) {
  const test::Holdings before;
  {
    test::EmulatedDevices devices(kDevice);
    auto pool = make_lake({devices[0]}, kSpilling);
    const Lease lease = take(*pool, MiB * 100);
    devices.close();
  }
  EXPECT_EQ(test::Holdings(), before);
}

TEST(a_driver_that_cannot_map_memory_of_the_host_is_refused_in_a_sentence) {
  const test::EmulatedDevices devices(kDevice);
  for (const Feature feature : {Feature::host_memory, Feature::host_numa_memory})
    devices[0]->features().put(
        feature, {.has = false, .source = FeatureSource::attribute, .reason = "the driver does not know it"});
  for (const LakeOptions& options : {kSpilling, LakeOptions{.location = Location::host}}) {
    try {
      static_cast<void>(make_lake({devices[0]}, options));
      test::fail("it was made", std::source_location::current());
    } catch (const Error& error) {
      EXPECT(error.kind() == ErrorKind::config);
      EXPECT(std::strstr(error.what(), "cannot map memory of the host") != nullptr);
    }
  }
}

}  // namespace
}  // namespace memlake
