// When memory that one stream freed serves another: the three rules, and what the host has waited for. Also trimming,
// which waits for nobody, and access from other devices.

#include "driver/stream_order.hpp"
#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "random_program.hpp"
#include "test.hpp"
#include "vmm/access.hpp"

namespace memlake {
namespace {

using test::counter;
using test::expect_sound;
using test::OwnStream;
using test::take;

constexpr Bytes kUnlimited{UINT64_MAX};
const char* const kManual = "devices=1,memory=256MiB,backing=none,streams=manual";

/// A lake on a device whose streams run step by step: stream `a` has freed memory that its queued work still uses.
struct Freed {
  test::EmulatedDevices devices{kManual};
  std::shared_ptr<Device> device = devices[0];
  std::shared_ptr<LivePool> pool = LivePool::make({device}, choose_policy("lake").space_maker(), kUnlimited);
  OwnStream a{device};
  OwnStream b{device};
  EventOwner event{device, false};
  Address place;

  explicit Freed(const ReuseRules& rules) {
    pool->settings().set_reuse_rules(rules);
    Lease lease = take(*pool, MiB * 100, a.name());
    place = lease.address();
    fill(*device, place, 1, lease.size(), a.owner->handle());
    lease.close();
  }
  void record_and_wait() {
    StreamOrder::record(*device, event.handle(), a.owner->handle());
    StreamOrder::wait(*device, b.owner->handle(), event.handle());
  }
  void finish_a() const { static_cast<void>(test::emulator().emulator().step(a.owner->handle(), 10)); }
  /// Whether a request of `b` gets the memory that `a` freed. The emulator would call work that comes too early a
  /// violation.
  [[nodiscard]] bool serves_b() {
    const std::size_t violations = test::ledger_count("violations");
    Lease lease = take(*pool, MiB * 100, b.name());
    const bool is_same = lease.address() == place;
    lease.close();
    expect_sound(*pool);
    EXPECT_EQ(test::ledger_count("violations"), violations);
    return is_same;
  }
};

constexpr ReuseRules kNone{false, false, false};

TEST(without_rules_a_stream_gets_only_its_own_memory) {
  Freed freed(kNone);
  freed.record_and_wait();
  freed.finish_a();
  EXPECT(!freed.serves_b());
  EXPECT_EQ(counter(*freed.pool, "reused_by_event"), 0u);
  EXPECT_EQ(counter(*freed.pool, "reused_opportunistically"), 0u);
}

TEST(an_order_that_the_program_made_gives_memory_to_the_later_stream) {
  {
    Freed freed({.follow_event_dependencies = true, .allow_opportunistic = false});
    EXPECT(!freed.serves_b());  // there is no order yet
  }
  Freed freed({.follow_event_dependencies = true, .allow_opportunistic = false});
  freed.record_and_wait();
  EXPECT(freed.serves_b());
  EXPECT_EQ(counter(*freed.pool, "reused_by_event"), 1u);
  EXPECT_EQ(freed.pool->figures().stats().host_waits, 0u);
}

TEST(a_recording_before_the_free_orders_nothing) {
  Freed freed({.follow_event_dependencies = true, .allow_opportunistic = false});
  freed.record_and_wait();
  Lease later = take(*freed.pool, MiB * 100, freed.a.name());
  EXPECT(later.address() == freed.place);
  later.close();
  EXPECT(!freed.serves_b());
}

TEST(an_order_passes_through_a_third_stream) {
  Freed freed({.follow_event_dependencies = true, .allow_opportunistic = false});
  const OwnStream between(freed.device);
  EventOwner second(freed.device, false);
  StreamOrder::record(*freed.device, freed.event.handle(), freed.a.owner->handle());
  StreamOrder::wait(*freed.device, between.owner->handle(), freed.event.handle());
  StreamOrder::record(*freed.device, second.handle(), between.owner->handle());
  StreamOrder::wait(*freed.device, freed.b.owner->handle(), second.handle());
  EXPECT(freed.serves_b());
}

TEST(an_event_that_is_gone_orders_nothing_by_its_old_handle) {
  Freed freed({.follow_event_dependencies = true, .allow_opportunistic = false});
  StreamOrder& order = freed.device->library().order();
  StreamOrder::record(*freed.device, freed.event.handle(), freed.a.owner->handle());
  order.forget(freed.event.handle());
  StreamOrder::wait(*freed.device, freed.b.owner->handle(), freed.event.handle());
  EXPECT(!freed.serves_b());
}

TEST(memory_that_a_stream_has_passed_goes_elsewhere_when_there_is_no_other) {
  for (const bool is_allowed : {true, false}) {
    Freed freed({.follow_event_dependencies = false, .allow_opportunistic = is_allowed});
    freed.pool->settings().set_limit(MiB * 150);
    freed.finish_a();
    EXPECT(freed.serves_b());
    EXPECT_EQ(counter(*freed.pool, "reused_opportunistically"), is_allowed ? 1u : 0u);
    EXPECT_EQ(counter(*freed.pool, "stream_waits"), is_allowed ? 0u : 1u);
  }
}

TEST(with_room_a_stream_keeps_the_memory_that_it_has_passed) {
  Freed freed({});
  freed.finish_a();
  EXPECT(!freed.serves_b());
}

TEST(what_the_host_has_waited_for_is_free_for_everybody) {
  enum class Wait { stream, event, device };
  for (const Wait wait : {Wait::stream, Wait::event, Wait::device}) {
    Freed freed(kNone);
    StreamOrder::record(*freed.device, freed.event.handle(), freed.a.owner->handle());
    freed.finish_a();
    switch (wait) {
      case Wait::stream:
        StreamOrder::synchronize_stream(*freed.device, freed.a.owner->handle());
        break;
      case Wait::event:
        StreamOrder::synchronize_event(*freed.device, freed.event.handle());
        break;
      case Wait::device:
        StreamOrder::synchronize_device(*freed.device);
        break;
    }
    EXPECT(freed.serves_b());
  }
}

TEST(at_the_budget_a_wait_is_inserted_only_if_it_may_be) {
  for (const bool may_wait : {true, false}) {
    Freed freed(
        {.follow_event_dependencies = false, .allow_opportunistic = false, .allow_internal_dependencies = may_wait});
    if (!may_wait) freed.finish_a();  // or the host would wait for ever
    const Lease large = take(*freed.pool, MiB * 200, freed.b.name());
    EXPECT_EQ(counter(*freed.pool, "stream_waits") > 0, may_wait);
    expect_sound(*freed.pool);
  }
}

TEST(memory_of_a_destroyed_stream_waits_for_the_stream_that_used_it_last) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  const std::shared_ptr<Device> device = devices[0];
  const auto pool = LivePool::make({device}, choose_policy("lake").space_maker(), kUnlimited);
  const OwnStream user(device);
  take(*pool, MiB, user.name()).close();  // a stream that the pool knows takes over no number
  {
    const OwnStream gone(device);
    take(*pool, MiB * 200, gone.name()).close();
  }
  device->synchronize();
  Lease lease = take(*pool, MiB * 100, user.name());  // memory of the stream that is gone
  const std::uint64_t gate = test::emulator().emulator().hold(user.owner->handle());
  fill(*device, lease.address(), 1, lease.size(), user.owner->handle());
  lease.close();
  const std::size_t violations = test::ledger_count("violations");
  // The host must wait for the user's work; here that wait is made to fail, because the work cannot go on.
  FailingDriver& failing = test::emulator().failing();
  failing.fail(Call::cuEventSynchronize, 1, CUDA_ERROR_INVALID_VALUE);
  EXPECT_ERROR(invalid_call, static_cast<void>(take(*pool, MiB * 240)));
  failing.clear();
  EXPECT_EQ(test::ledger_count("violations"), violations);
  test::emulator().emulator().open_gate(gate);
  take(*pool, MiB * 240).close();
  expect_sound(*pool);
  EXPECT_EQ(test::ledger_count("violations"), violations);
}

TEST(trimming_waits_for_nobody_and_keeps_what_work_still_uses) {
  for (const char* policy : {"lake", "stitch", "caching", "expandable"}) {
    const test::EmulatedDevices devices(kManual);
    const std::shared_ptr<Device> device = devices[0];
    const auto pool = LivePool::make({device}, choose_policy(policy).space_maker(), kUnlimited);
    const OwnStream a(device);
    Lease lease = take(*pool, MiB * 64, a.name());
    fill(*device, lease.address(), 1, lease.size(), a.owner->handle());
    lease.close();
    EXPECT_EQ(pool->trim({0}).count, 0u);
    EXPECT_EQ(pool->figures().stats().host_waits, 0u);
    static_cast<void>(test::emulator().emulator().step(a.owner->handle(), 10));
    const Bytes held = pool->figures().held();
    EXPECT_EQ(pool->trim({0}).count, held.count);
    EXPECT_EQ(pool->figures().held().count, 0u);
    expect_sound(*pool);
  }
}

TEST(peers_reach_what_is_there_and_what_comes_until_they_are_removed) {
  for (const char* policy : {"lake", "expandable"}) {
    const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
    const std::shared_ptr<Device> peer = devices[1];
    peer->context();
    const auto pool = LivePool::make({devices[0]}, choose_policy(policy).space_maker(), kUnlimited);
    const Lease before = take(*pool, MiB * 30);
    EXPECT_EQ(get_access(*peer, before.address()), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    pool->settings().set_peers({peer});
    const Lease after = take(*pool, MiB * 60);
    for (const Lease* lease : {&before, &after})
      EXPECT_EQ(get_access(*peer, lease->address()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    pool->settings().set_peers({});
    for (const Lease* lease : {&before, &after}) {
      EXPECT_EQ(get_access(*peer, lease->address()), CU_MEM_ACCESS_FLAGS_PROT_NONE);
      EXPECT_EQ(get_access(*devices[0], lease->address()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
  }
}

TEST(threads_that_change_different_peers_do_not_undo_each_other) {
  const test::EmulatedDevices devices("devices=3,memory=64MiB,backing=none");
  const auto pool = LivePool::make({devices[0]}, choose_policy("lake").space_maker(), kUnlimited);
  const auto has = [&](const Device& peer) {
    return std::ranges::any_of(pool->settings().peers(),
                               [&](const auto& one) { return one->ordinal() == peer.ordinal(); });
  };
  const auto change = [&](const std::shared_ptr<Device>& peer) {
    for (int round = 0; round < 100; ++round) {
      pool->settings().add_peer(peer);
      EXPECT(has(*peer));
      pool->settings().remove_peer(*peer);
      EXPECT(!has(*peer));
    }
    pool->settings().add_peer(peer);
  };
  std::thread other([&] { change(devices[1]); });
  change(devices[2]);
  other.join();
  EXPECT_EQ(pool->settings().peers().size(), 2u);
  pool->close();
  EXPECT(pool->settings().peers().empty());
  EXPECT_ERROR(closed, pool->settings().add_peer(devices[1]));
}

TEST(access_that_cannot_be_changed_everywhere_is_changed_nowhere) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const std::shared_ptr<Device> peer = devices[1];
  peer->context();
  const auto pool = LivePool::make({devices[0]}, choose_policy("expandable").space_maker(), kUnlimited);
  const Lease lease = take(*pool, MiB * 60);
  FailingDriver& failing = test::emulator().failing();
  failing.fail(Call::cuMemSetAccess, 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_ERROR(out_of_memory, pool->settings().set_peers({peer}));
  EXPECT_EQ(get_access(*peer, lease.address()), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  pool->settings().set_peers({peer});
  failing.fail(Call::cuMemSetAccess, 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_ERROR(out_of_memory, pool->settings().set_peers({}));
  EXPECT_EQ(get_access(*peer, lease.address()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(memory_of_cuMemAlloc_has_no_access_of_its_own) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  for (const char* policy : {"caching", "direct", "stitch"}) {
    const auto pool = LivePool::make({devices[0]}, choose_policy(policy).space_maker(), kUnlimited);
    EXPECT_ERROR(config, pool->settings().set_peers({devices[1]}));
    EXPECT(!pool->settings().reuse_rules());
  }
}

}  // namespace
}  // namespace memlake
