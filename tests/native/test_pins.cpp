// Pinned leases: their memory stays, whichever thread closes them at the same time.

#include <atomic>
#include <thread>

#include "emulated.hpp"
#include "lakes.hpp"
#include "random_program.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::make_lake;
using test::take;

TEST(a_pinned_lease_is_freed_by_the_last_unpin) {
  const test::EmulatedDevices devices;
  const auto pool = make_lake({devices[0]});
  Lease lease = take(*pool, MiB);
  EXPECT_ERROR(invalid_free, lease.unpin());
  lease.pin();
  lease.pin();
  EXPECT(!lease.close_at_once());
  lease.close();
  EXPECT_ERROR(closed, lease.pin());
  EXPECT_EQ(pool->stats().live_count, 1U);
  lease.unpin();
  EXPECT(lease.is_pinned());
  EXPECT_EQ(pool->stats().live_count, 1U);
  lease.unpin();
  EXPECT_EQ(pool->stats().live_count, 0U);
  EXPECT_ERROR(invalid_free, lease.unpin());
  expect_sound(*pool);
}

TEST(a_lease_that_is_dropped_while_pinned_is_freed) {
  const test::EmulatedDevices devices;
  const auto pool = make_lake({devices[0]});
  for (const bool is_closed : {false, true}) {
    Lease lease = take(*pool, MiB);
    lease.pin();
    if (is_closed) lease.close();
  }
  EXPECT_EQ(pool->stats().live_count, 0U);
  expect_sound(*pool);
}

enum class Close { close, at_once };

/// One thread pins leases while another closes them, each lease by both at once. How many were pinned but not kept.
int lost_pins(Close how, int rounds) {
  const test::EmulatedDevices devices;
  const auto pool = make_lake({devices[0]});
  take(*pool, MiB).close();  // from now on no driver call is needed
  std::atomic<Lease*> to_pin{nullptr};
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_tried{false};
  std::atomic<bool> is_pinned{false};
  std::thread pinner([&] {
    while (!is_over.load()) {
      Lease* lease = to_pin.exchange(nullptr);
      if (lease == nullptr) {
        std::this_thread::yield();
        continue;
      }
      try {
        lease->pin();
        is_pinned.store(true);
      } catch (const Error&) {
        is_pinned.store(false);
      }
      has_tried.store(true);
    }
  });
  int lost = 0;
  for (int i = 0; i < rounds; ++i) {
    Lease lease = take(*pool, MiB);
    has_tried.store(false);
    to_pin.store(&lease);
    // The two meet at another point of their ways in every round.
    for (int spins = i % 64; spins > 0 && to_pin.load() != nullptr; --spins) {
    }
    if (how == Close::close || !lease.close_at_once()) lease.close();
    while (!has_tried.load()) std::this_thread::yield();
    lost += is_pinned.load() && pool->stats().live_count == 0 ? 1 : 0;
    if (is_pinned.load()) lease.unpin();
    if (pool->stats().live_count != 0) test::fail("a lease was not freed", std::source_location::current());
    if (test::running_test_has_failed()) break;
  }
  is_over.store(true);
  pinner.join();
  expect_sound(*pool);
  return lost;
}

TEST(a_pin_that_races_with_a_close_is_refused_or_keeps_the_memory) {
  EXPECT_EQ(lost_pins(Close::close, 10'000), 0);
  EXPECT_EQ(lost_pins(Close::at_once, 10'000), 0);
}

}  // namespace
}  // namespace memlake
