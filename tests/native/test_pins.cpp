// Pinned leases: their memory stays, whichever thread closes them at the same time.

#include <thread>

#include "emulated.hpp"
#include "lakes.hpp"
#include "random_program.hpp"
#include "sabotage_lock.hpp"
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
  EXPECT_EQ(pool->figures().stats().live_count, 1U);
  lease.unpin();
  EXPECT(lease.is_pinned());
  EXPECT_EQ(pool->figures().stats().live_count, 1U);
  lease.unpin();
  EXPECT_EQ(pool->figures().stats().live_count, 0U);
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
  EXPECT_EQ(pool->figures().stats().live_count, 0U);
  expect_sound(*pool);
}

/// A thread that pins a lease comes as far as the pool's lock; then another closes the lease, before that thread is
/// awake again or after it. Whether it said that the lease is pinned, and it was freed.
bool loses_a_pin(LivePool& pool, bool closes_at_once) {
  Lease lease = take(pool, MiB);
  const test::LockSabotage sabotage(pool);
  bool is_pinned = false;
  sabotage.lock.lock();
  std::thread pinner([&] {
    try {
      lease.pin();
      is_pinned = true;
    } catch (const Error& error) {
      EXPECT(error.kind() == ErrorKind::closed);
    }
  });
  while (!sabotage.is_awaited()) std::this_thread::yield();
  sabotage.lock.unlock();
  if (!closes_at_once || !lease.close_at_once()) lease.close();
  pinner.join();
  const bool is_lost = is_pinned && pool.figures().stats().live_count == 0;
  if (is_pinned) lease.unpin();
  EXPECT_EQ(pool.figures().stats().live_count, 0U);
  return is_lost;
}

TEST(a_pin_that_races_with_a_close_is_refused_or_keeps_the_memory) {
  const test::EmulatedDevices devices;
  const auto pool = make_lake({devices[0]});
  int lost = 0;
  for (int round = 0; round < 25; ++round)
    for (const bool closes_at_once : {false, true}) lost += loses_a_pin(*pool, closes_at_once) ? 1 : 0;
  EXPECT_EQ(lost, 0);
  expect_sound(*pool);
}

}  // namespace
}  // namespace memlake
