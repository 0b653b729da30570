// Live pools: streams, events, threads, faults, and the check of the invariants.

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "policies/torch/torch_options.hpp"
#include "random_program.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::OwnStream;
using test::RandomProgram;
using test::take;

constexpr Bytes kUnlimited = TorchOptions::kUnlimited;
const char* const kDevice = "devices=1,memory=512MiB,backing=none";

enum class Kind { caching, expandable, direct, stitch, lake, plain_lake };

const char* text_of(Kind kind) {
  switch (kind) {
    case Kind::direct:
      return "direct";
    case Kind::stitch:
      return "stitch,frag_limit:16MiB";
    case Kind::lake:
      return "lake";
    case Kind::plain_lake:
      return "lake,aliasing:none";
    case Kind::caching:
      return "caching";
    case Kind::expandable:
      break;
  }
  return "expandable";
}

std::shared_ptr<LivePool> make_pool(const test::EmulatedDevices& devices, Kind kind, Bytes limit = kUnlimited) {
  return LivePool::make({devices[0]}, choose_policy(text_of(kind)).space_maker(), limit);
}

TEST(a_stream_gets_back_at_once_what_it_freed_and_another_does_not) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::stitch}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, kind);
    const OwnStream a(devices[0]);
    const OwnStream b(devices[0]);
    Lease first = take(*pool, MiB * 30, a.name());
    const Address place = first.address();
    first.close();
    EXPECT(take(*pool, MiB * 30, b.name()).address() != place);
    EXPECT(take(*pool, MiB * 30, a.name()).address() == place);
    expect_sound(*pool);
  }
}

TEST(a_stream_of_another_device_to_which_memory_was_freed_gets_no_memory) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const auto pool = make_pool(devices, Kind::lake);
  pool->promise_lasting_streams();
  const OwnStream elsewhere(devices[1]);
  const CUstream handle = elsewhere.name().handle;
  const StreamName name{.handle = handle};
  for (int i = 0; i < 2; ++i) {
    pool->by_address().free(pool->by_address().allocate(MiB * 4, nullptr), handle);
    Shortage shortage;
    EXPECT_ERROR(invalid_argument, pool->by_address().allocate(MiB * 4, handle));
    EXPECT_ERROR(invalid_argument, pool->allocate(MiB * 4, name, shortage));
    EXPECT(!pool->lease_free_block(MiB * 4, handle));
  }
  expect_sound(*pool);
}

TEST(what_is_freed_in_the_order_of_another_stream_is_reused_there_at_once) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::stitch}) {
    const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
    const auto pool = make_pool(devices, kind);
    const OwnStream a(devices[0]);
    const OwnStream b(devices[0]);
    Lease first = take(*pool, MiB * 30, a.name());
    const Address place = first.address();
    fill(*devices[0], first.address(), 1, first.size(), b.owner->handle());  // stays in the queue of b
    first.close(b.name());
    expect_sound(*pool);
    EXPECT_EQ(pool->figures().stats().pending_count, 1u);
    Lease on_a = take(*pool, MiB * 30, a.name());
    EXPECT(on_a.address() != place);
    Lease on_b = take(*pool, MiB * 30, b.name());
    EXPECT(on_b.address() == place);
    expect_sound(*pool);
    on_b.close();  // in the order of b again
    EXPECT_EQ(pool->figures().stats().pending_count, 1u);
    static_cast<void>(test::emulator().emulator().step(b.owner->handle(), 10));
    Lease again = take(*pool, MiB * 30, a.name());  // the event of b is done
    EXPECT(again.address() == place);
    expect_sound(*pool);
  }
}

TEST(of_many_pending_blocks_only_the_oldest_are_looked_at) {
  for (const int older : {10, 64}) {
    const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
    const auto pool = make_pool(devices, Kind::caching);
    const OwnStream a(devices[0]);
    const OwnStream b(devices[0]);
    std::vector<Lease> leases;
    for (int i = 0; i < older; ++i) leases.push_back(take(*pool, MiB * 2, a.name()));
    leases.push_back(take(*pool, MiB * 30, a.name()));
    const Address place = leases.back().address();
    fill(*devices[0], place, 1, MiB, b.owner->handle());  // stays in the queue of b
    for (Lease& lease : leases) lease.close(b.name());
    const Lease on_b = take(*pool, MiB * 30, b.name());
    EXPECT_EQ(on_b.address() == place, older < 64);
    expect_sound(*pool);
  }
}

TEST(a_rise_is_told_once_and_again_after_a_fall) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::lake}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, kind);
    for (int round = 0; round < 2; ++round) {
      EXPECT(!pool->figures().has_risen_to(MiB * 40));
      Lease lease = take(*pool, MiB * 40);
      EXPECT(pool->figures().has_risen_to(MiB * 40));
      EXPECT(!pool->figures().has_risen_to(MiB * 40));
      lease.close();
      pool->trim({0});
    }
  }
}

TEST(a_recorded_stream_keeps_a_freed_block_pending_until_it_has_passed) {
  const test::EmulatedDevices devices("devices=1,memory=512MiB,backing=none,streams=manual");
  const auto pool = make_pool(devices, Kind::caching);
  const OwnStream b(devices[0]);
  Lease lease = take(*pool, MiB * 30);
  const Address place = lease.address();
  fill(*devices[0], place, 1, MiB, b.owner->handle());
  lease.record_use(b.name());
  lease.close();
  EXPECT(take(*pool, MiB * 30).address() != place);
  EXPECT_EQ(pool->figures().stats().pool.active.now.count, (MiB * 30).count);
  static_cast<void>(test::emulator().emulator().step(b.owner->handle(), 10));
  EXPECT(take(*pool, MiB * 30).address() == place);
  expect_sound(*pool);
}

TEST(a_new_stream_with_the_number_of_a_dead_one_does_not_inherit_its_memory) {
  StreamTable table;
  const test::EmulatedDevices devices(kDevice);
  const OwnStream stream(devices[0]);
  const StreamId first = table.number_of(stream.name());
  EXPECT_EQ(table.number_of(stream.name()), first);
  EXPECT_EQ(table.number_of({.handle = stream.owner->handle()}), first);
  // Another owner of the same handle: the old one must be gone.
  const StreamName reused{.handle = stream.owner->handle(), .owner = OwnStream(devices[0]).owner};
  EXPECT(table.number_of(reused) != first);
  EXPECT_EQ(table.number_of({}), 0u);
  EXPECT_EQ(table.number_of({.handle = reinterpret_cast<CUstream>(1)}), 0u);
  EXPECT_ERROR(config, table.number_of({.handle = reinterpret_cast<CUstream>(2)}));
}

TEST(a_destroyed_stream_leaves_its_memory_usable) {
  const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=none");
  const auto pool = make_pool(devices, Kind::expandable);
  {
    const OwnStream stream(devices[0]);
    Lease lease = take(*pool, MiB * 40, stream.name());
    fill(*devices[0], lease.address(), 1, lease.size(), stream.owner->handle());
  }
  // Only by unmapping what the dead stream had, after its work is finished.
  Lease lease = take(*pool, MiB * 40);
  expect_sound(*pool);
  EXPECT_EQ(pool->figures().stats().pool.retries, 1u);
}

TEST(a_pool_lives_until_its_last_lease_is_gone) {
  const test::Holdings before;
  const test::EmulatedDevices devices(kDevice);
  {
    auto pool = make_pool(devices, Kind::expandable);
    Lease lease = take(*pool, MiB * 4);
    EXPECT_ERROR(invalid_free, pool->close());
    pool.reset();
    lease.close();
    EXPECT_ERROR(invalid_free, lease.close());
    EXPECT_ERROR(closed, lease.record_use({}));
  }
  EXPECT_EQ(test::Holdings(), before);
}

TEST(a_closed_pool_has_given_everything_back) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::stitch, Kind::lake, Kind::plain_lake}) {
    const test::EmulatedDevices devices(kDevice);
    const test::Holdings before;
    const auto pool = make_pool(devices, kind);
    take(*pool, MiB * 4).close();
    pool->close();
    EXPECT_EQ(test::Holdings(), before);
    EXPECT_ERROR(invalid_free, pool->close());
    Shortage shortage;
    EXPECT_ERROR(closed, static_cast<void>(pool->allocate(MiB, {}, shortage)));
    EXPECT(!pool->lease_at_once(MiB).has_value());
  }
}

TEST(trimming_keeps_what_is_asked_for_and_nothing_that_is_used_goes) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::stitch}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, kind);
    Lease kept = take(*pool, MiB * 40);
    take(*pool, MiB * 60).close();
    const Bytes held = pool->figures().held();
    pool->trim(held);
    EXPECT_EQ(pool->figures().held().count, held.count);
    pool->trim(MiB * 60);
    EXPECT(pool->figures().held() >= MiB * 60 || kind == Kind::caching);
    EXPECT(pool->figures().held() <= held);
    expect_sound(*pool);
    pool->trim({0});
    EXPECT(pool->figures().held() >= MiB * 40 && pool->figures().held() < MiB * 60);
    expect_sound(*pool);
  }
}

TEST(memory_that_was_taken_in_advance_needs_no_further_driver_call) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::stitch}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, kind);
    Shortage shortage;
    EXPECT(pool->preallocate(MiB * 200, {}, shortage));
    EXPECT_EQ(pool->figures().stats().pool.allocations, 0u);
    expect_sound(*pool);
    EXPECT(pool->lease_at_once(MiB * 200).has_value());
    EXPECT(!pool->preallocate(GiB, {}, shortage));
    EXPECT_EQ(shortage.request.requested.count, GiB.count);
    expect_sound(*pool);
  }
}

TEST(the_limit_holds_for_every_policy) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::stitch, Kind::lake, Kind::plain_lake}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, kind, MiB * 100);
    Shortage shortage;
    Lease first = take(*pool, MiB * 60);
    EXPECT(!pool->allocate(MiB * 60, {}, shortage).has_value());
    EXPECT_EQ(shortage.limits.limit.count, (MiB * 100).count);
    EXPECT(!shortage.tried.empty());
    pool->settings().set_limit(MiB * 200);
    Lease second = take(*pool, MiB * 60);
    EXPECT(pool->figures().held() <= MiB * 200);
    expect_sound(*pool);
  }
}

TEST(each_limit_is_changed_alone_and_is_told_also_after_the_end) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, Kind::lake, MiB * 100);
  pool->settings().set_memory_fraction(MiB * 50);
  EXPECT_EQ(pool->figures().stats().limit.count, (MiB * 50).count);
  pool->settings().set_limit(MiB * 20);
  EXPECT_EQ(pool->figures().stats().limit.count, (MiB * 20).count);
  pool->settings().set_limit(kUnlimited);
  pool->settings().set_release_threshold(MiB * 3);
  EXPECT_EQ(pool->figures().stats().limit.count, (MiB * 50).count);
  pool->close();
  EXPECT_EQ(pool->settings().limits().limit.count, kUnlimited.count);
  EXPECT_EQ(pool->settings().limits().memory_fraction.count, (MiB * 50).count);
  EXPECT_EQ(pool->settings().release_threshold().count, (MiB * 3).count);
}

TEST(every_invariant_holds_after_every_step_of_a_long_random_run) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::stitch, Kind::lake, Kind::plain_lake})
    for (unsigned seed = 0; seed < 3; ++seed) {
      const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
      const auto pool = make_pool(devices, kind);
      RandomProgram program(pool, devices[0], seed);
      for (int i = 0; i < 1500 && !test::running_test_has_failed(); ++i) {
        program.step();
        expect_sound(*pool);
      }
      EXPECT(pool->figures().stats().pool.allocations > 300);
    }
}

TEST(threads_may_share_a_pool) {
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::stitch, Kind::lake, Kind::plain_lake}) {
    const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
    const auto pool = make_pool(devices, kind);
    {
      std::vector<std::thread> threads;
      for (unsigned seed = 0; seed < 4; ++seed)
        threads.emplace_back([&, seed] {
          RandomProgram program(pool, devices[0], seed);
          for (int i = 0; i < 600; ++i) program.step();
        });
      for (std::thread& thread : threads) thread.join();
    }
    expect_sound(*pool);
    EXPECT_EQ(pool->figures().stats().live_count, 0u);
  }
}

TEST(a_driver_call_that_fails_loses_nothing) {
  FailingDriver& failing = test::emulator().failing();
  for (const Kind kind : {Kind::caching, Kind::expandable, Kind::direct, Kind::stitch, Kind::lake, Kind::plain_lake})
    for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      std::uint64_t faults = 0;
      for (std::uint64_t nth = 1; nth < 400; nth += 3) {
        const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
        const auto pool = make_pool(devices, kind);
        RandomProgram program(pool, devices[0], 1);
        for (int i = 0; i < 10; ++i) program.step();
        failing.fail(std::nullopt, nth, fault);
        for (int i = 0; i < 30; ++i) {
          try {
            program.step();
          } catch (const Error&) {
            ++faults;
          }
          expect_sound(*pool);
        }
        failing.clear();
        for (int i = 0; i < 20; ++i) program.step();
        expect_sound(*pool);
        if (test::running_test_has_failed()) return;
      }
      EXPECT(faults > 0 || fault == CUDA_ERROR_OUT_OF_MEMORY);
    }
}

TEST(a_recording_replays_what_happened) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  const auto pool = make_pool(devices, Kind::caching);
  Lease early = take(*pool, MiB * 3);
  pool->start_recording();
  EXPECT_ERROR(config, pool->start_recording());
  take(*pool, MiB).close();
  Shortage shortage;
  EXPECT(!pool->allocate(GiB, {}, shortage).has_value());
  pool->trim(MiB);
  const Bytes held = pool->figures().held();
  const RowLog log = pool->stop_recording();
  // The request that was refused is there, and is given back at once; trimming kept what it says.
  const std::vector<std::uint8_t> wanted{0, 0, 1, 0, 1, 8};
  EXPECT(log.op() == wanted);
  EXPECT(log.id() == (std::vector<std::uint64_t>{0, 1, 1, 2, 2, 0}));
  EXPECT(log.bytes() == (std::vector<std::uint64_t>{(MiB * 3).count, MiB.count, 0, GiB.count, 0, held.count}));
  EXPECT_ERROR(config, static_cast<void>(pool->stop_recording()));
}

}  // namespace
}  // namespace memlake
