// The policy driver: every request and every free is one of CUDA's own pool functions, in stream order.

#include <atomic>
#include <random>
#include <thread>

#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/cuda_pool/cuda_pool_space.hpp"
#include "random_program.hpp"
#include "replay/replay.hpp"
#include "replay/replay_device.hpp"

namespace memlake::test {

namespace {

constexpr Bytes kNoLimit{UINT64_MAX};

std::shared_ptr<LivePool> make(const std::shared_ptr<Device>& device, const CudaPoolOptions& options = {},
                               Bytes limit = kNoLimit) {
  const auto make_space = [&](const Devices& on, EventSource& events, std::shared_ptr<Budget> budget) {
    return std::make_unique<CudaPoolSpace>(on.front(), options, events, std::move(budget));
  };
  return LivePool::make({device}, make_space, limit);
}

bool is_refused(LivePool& pool, Bytes size) {
  Shortage shortage;
  return !pool.allocate(size, {}, shortage).has_value();
}

template <class Step>
bool throws(Step&& step) {
  try {
    step();
  } catch (const Error&) {
    return true;
  }
  return false;
}

/// A lease that can be kept in a list.
using Kept = std::unique_ptr<Lease>;
Kept keep(Lease&& lease) { return std::make_unique<Lease>(std::move(lease)); }

}  // namespace

TEST(streams_that_go_on_during_a_check_are_no_broken_invariant) {
  const EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  const auto pool = make(devices[0]);
  pool->settings().set_release_threshold({0});
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    const OwnStream stream(devices[0]);
    for (int i = 0; i < 3000; ++i) {
      Lease lease = take(*pool, MiB * 64, stream.name());
      fill(*devices[0], lease.address(), 1, MiB * 64, stream.owner->handle());
      lease.close();
      devices[0]->synchronize();  // the driver holds less from here on
    }
    is_over = true;
  });
  while (!is_over) expect_sound(*pool);
  thread.join();
}

TEST(every_request_and_every_free_is_the_drivers) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto pool = make(devices[0]);
  const OwnStream stream(devices[0]);
  {
    Lease one = take(*pool, MiB * 3, stream.name());
    Lease other = take(*pool, {100});
    EXPECT_EQ(one.address().value % 512, 0U);
    EXPECT_EQ(other.address().value % 512, 0U);
    fill(*devices[0], one.address(), 7, one.size(), stream.name().handle);
    expect_sound(*pool);
    EXPECT_EQ(ledger_count("pool_allocations"), std::size_t{2});
    EXPECT_EQ(pool->figures().stats().pool.held.now.count, (MiB * 32).count);
    EXPECT(counter(*pool, "driver_used") >= (MiB * 3).count + 512);
  }
  EXPECT_EQ(ledger_count("pool_allocations"), std::size_t{0});
  EXPECT_EQ(calls(*pool, "cuMemFreeAsync"), calls(*pool, "cuMemAllocFromPoolAsync"));
  expect_sound(*pool);
  while (!stream_is_done(*devices[0], stream.name().handle)) std::this_thread::yield();
  EXPECT_EQ(pool->trim({0}).count, (MiB * 32).count);  // the host has waited for nothing, but both streams are idle
  EXPECT_EQ(pool->figures().held().count, 0U);
}

TEST(zero_bytes_never_reach_the_driver) {
  const EmulatedDevices devices;
  const auto pool = make(devices[0]);
  take(*pool, {0}).close();
  EXPECT_EQ(calls(*pool, "cuMemAllocFromPoolAsync") + calls(*pool, "cuMemFreeAsync"), 0U);
}

TEST(a_close_on_another_stream_is_a_free_in_its_order_and_needs_no_event) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto pool = make(devices[0]);
  const OwnStream one(devices[0]);
  const OwnStream other(devices[0]);
  Lease lease = take(*pool, MiB, one.name());
  const Address address = lease.address();
  lease.close(other.name());
  EXPECT_EQ(calls(*pool, "cuEventRecord"), 0U);
  EXPECT_EQ(pool->figures().stats().pending_count, 0U);
  EXPECT_EQ(take(*pool, MiB, other.name()).address().value, address.value);  // in stream order at once
  expect_sound(*pool);
}

TEST(recorded_uses_are_waited_for_by_events) {
  const EmulatedDevices devices("devices=1,memory=256MiB,streams=manual");
  const auto pool = make(devices[0]);
  const OwnStream one(devices[0]);
  const OwnStream other(devices[0]);
  Lease lease = take(*pool, MiB, one.name());
  fill(*devices[0], lease.address(), 1, lease.size(), other.name().handle);
  lease.record_use(other.name());
  const std::uint64_t before = calls(*pool, "cuMemFreeAsync");
  lease.close();
  EXPECT_EQ(pool->figures().stats().pending_count, 1U);
  EXPECT_EQ(calls(*pool, "cuMemFreeAsync"), before);
  expect_sound(*pool);
  stream_synchronize(*devices[0], other.name().handle);
  pool->trim({0});
  EXPECT_EQ(pool->figures().stats().pending_count, 0U);
  EXPECT_EQ(calls(*pool, "cuMemFreeAsync"), before + 1);
  EXPECT_EQ(pool->figures().held().count, 0U);
}

TEST(a_close_that_races_is_refused_and_the_buffer_lives_on) {
  const EmulatedDevices devices("devices=1,memory=256MiB,streams=manual");
  const auto pool = make(devices[0]);
  const OwnStream one(devices[0]);
  const OwnStream other(devices[0]);
  Lease lease = take(*pool, MiB, one.name());
  fill(*devices[0], lease.address(), 1, lease.size(), other.name().handle);
  EXPECT(throws([&] { lease.close(); }));
  expect_sound(*pool);
  EXPECT_EQ(pool->figures().stats().live_count, 1U);
  stream_synchronize(*devices[0], other.name().handle);
  lease.close();
  EXPECT_EQ(pool->figures().stats().live_count, 0U);
}

TEST(the_limit_is_on_what_is_live_and_the_maximum_is_the_drivers) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto limited = make(devices[0], {}, MiB * 40);
  {
    const Lease lease = take(*limited, MiB * 30);
    EXPECT(is_refused(*limited, MiB * 11));
    take(*limited, MiB * 10).close();
    limited->settings().set_limit(MiB * 60);
    take(*limited, MiB * 30).close();
  }
  const auto capped = make(devices[0], {.max_size = MiB * 64});
  const Lease lease = take(*capped, MiB * 40);
  EXPECT(is_refused(*capped, MiB * 40));
  take(*capped, MiB * 24).close();
}

TEST(idle_memory_makes_room_for_what_does_not_fit_into_it) {
  const EmulatedDevices devices("devices=1,memory=64MiB");
  const auto pool = make(devices[0]);
  for (int i = 0; i < 2; ++i) {
    Lease one = take(*pool, MiB * 30);
    const Lease other = take(*pool, MiB * 30);
    one.close();
  }
  EXPECT_EQ(pool->figures().held().count, (MiB * 64).count);
  const Lease large = take(*pool, MiB * 60);
  EXPECT_EQ(pool->figures().stats().pool.retries, 1U);
  EXPECT_EQ(counter(*pool, "synchronisations"), 1U);
  EXPECT(is_refused(*pool, MiB * 10));
  expect_sound(*pool);
}

TEST(threshold_and_rules_are_the_drivers) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto pool = make(devices[0], {.reuse = {.allow_opportunistic = false}});
  EXPECT(pool->settings().reuse_rules() == ReuseRules{.allow_opportunistic = false});
  pool->settings().set_reuse_rules({.follow_event_dependencies = false});
  EXPECT(pool->settings().reuse_rules() == ReuseRules{.follow_event_dependencies = false});
  take(*pool, MiB).close();
  devices[0]->synchronize();
  EXPECT_EQ(pool->figures().held().count, (MiB * 32).count);  // unlike CUDA's own default, ours keeps memory
  pool->settings().set_release_threshold({0});
  devices[0]->synchronize();  // behind the pool's back: the driver sees it all the same
  EXPECT_EQ(pool->figures().held().count, 0U);
  EXPECT_EQ(pool->figures().stats().pool.held.peak.count, (MiB * 32).count);
  pool->figures().reset_peaks();
  EXPECT_EQ(pool->figures().stats().pool.held.peak.count, 0U);
}

TEST(peers_are_let_in_by_the_drivers_pool) {
  const EmulatedDevices devices("devices=2,memory=256MiB");
  const auto pool = make(devices[0]);
  const Lease lease = take(*pool, MiB);
  devices[0]->synchronize();
  devices[1]->context();
  EXPECT(throws([&] { fill(*devices[1], lease.address(), 1, MiB, nullptr); }));
  pool->settings().set_peers({devices[1]});
  fill(*devices[1], lease.address(), 1, MiB, nullptr);
  devices[1]->synchronize();
  pool->settings().set_peers({});
  EXPECT(throws([&] { fill(*devices[1], lease.address(), 1, MiB, nullptr); }));
}

TEST(memory_outlives_the_stream_it_was_allocated_on) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto pool = make(devices[0]);
  std::optional<OwnStream> stream(devices[0]);
  Lease lease = take(*pool, MiB, stream->name());
  fill(*devices[0], lease.address(), 1, lease.size(), stream->name().handle);
  stream->owner->close();
  lease.close();
  expect_sound(*pool);
  pool->close();
  EXPECT_EQ(ledger_count("pools"), std::size_t{0});
}

TEST(a_random_program_with_a_fault_at_any_call_leaves_nothing_behind) {
  FailingDriver& failing = emulator().failing();
  for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE}) {
    for (std::uint64_t nth = 1; nth < 60 && !running_test_has_failed(); ++nth) {
      const EmulatedDevices devices("devices=1,memory=64MiB,streams=manual,backing=none");
      devices[0]->context();
      const std::size_t pools = ledger_count("pools");
      {
        const OwnStream stream(devices[0]);
        std::vector<Kept> live;
        std::shared_ptr<LivePool> pool;
        failing.fail(std::nullopt, nth, fault);
        std::mt19937 random(7);
        const auto attempt = [](auto&& step) { static_cast<void>(throws(step)); };  // the injected one
        attempt([&] { pool = make(devices[0], {.reuse = {.allow_opportunistic = false}}); });
        for (int i = 0; i < 12 && pool != nullptr; ++i) {
          attempt([&] {
            Shortage shortage;
            const StreamName name = random() % 2 == 0 ? stream.name() : StreamName{};
            if (auto lease = pool->allocate(MiB * (1 + random() % 24), name, shortage))
              live.push_back(keep(*std::move(lease)));
          });
          attempt([&] {
            if (live.size() > 2) {
              if (random() % 2 == 0) live.front()->record_use(stream.name());
              live.front()->close();
              live.erase(live.begin());
            }
          });
          if (random() % 4 == 0) attempt([&] { pool->trim({0}); });
          attempt([&] { expect_sound(*pool); });
        }
        failing.clear();
        live.clear();
        if (pool != nullptr) {
          expect_sound(*pool);
          pool->close();
        }
      }
      EXPECT_EQ(ledger_count("pools"), pools);
      EXPECT_EQ(ledger_count("pool_allocations"), std::size_t{0});
      EXPECT_EQ(devices[0]->free_memory().count, (MiB * 64).count);
    }
  }
}

TEST(a_long_run_on_three_streams_keeps_every_invariant) {
  const EmulatedDevices devices("devices=1,memory=256MiB");
  const auto pool = make(devices[0], {}, MiB * 200);
  std::vector<OwnStream> streams;
  for (int i = 0; i < 2; ++i) streams.emplace_back(devices[0]);
  const std::vector<StreamName> names{{}, streams[0].name(), streams[1].name()};
  std::vector<std::pair<Kept, std::size_t>> live;
  std::mt19937 random(11);
  for (int i = 0; i < 1500 && !running_test_has_failed(); ++i) {
    const std::size_t on = random() % names.size();
    Shortage shortage;
    if (auto lease = pool->allocate({1 + random() % (std::uint64_t{1} << (9 + random() % 15))}, names[on], shortage)) {
      fill(*devices[0], lease->address(), 7, lease->size(), names[on].handle);
      live.emplace_back(keep(*std::move(lease)), on);
    }
    if (random() % 3 == 0 && live.size() > 8) {
      std::swap(live[random() % live.size()], live.back());
      auto& [kept, from] = live.back();
      Lease& lease = *kept;
      const std::size_t to = random() % names.size();
      stream_synchronize(*devices[0], names[from].handle);
      fill(*devices[0], lease.address(), 8, lease.size(), names[to].handle);
      if (random() % 2 == 0) {
        lease.record_use(names[to]);
        lease.close();
      } else {
        lease.close(names[to]);
      }
      live.pop_back();
    }
    if (random() % 40 == 0) pool->trim({random() % (MiB * 128).count});
    if (i % 10 == 0) expect_sound(*pool);
  }
  devices[0]->synchronize();
  live.clear();
  expect_sound(*pool);
}

TEST(a_replay_gives_each_stream_of_the_trace_one_of_the_device) {
  ReplayDevice device(emulator(), MiB * 64);
  TraceEvents events(EventMode::immediate, 0, device.device());
  Pool pool(
      std::make_unique<CudaPoolSpace>(device.device(), CudaPoolOptions{}, events, std::make_shared<Budget>(kNoLimit)),
      events);
  Block* one = pool.allocate(MiB * 20, 0);
  Block* other = pool.allocate(MiB * 20, 5);
  pool.record_use(one, 5);
  pool.free(one);
  pool.free(other, 0);
  EXPECT(pool.allocate(MiB * 60, 5) != nullptr);
  EXPECT(!pool.find_broken_invariant());
  EXPECT_EQ(device.calls().count(Call::cuStreamCreate) + device.calls().count(Call::cuStreamCreateWithPriority), 2U);
}

}  // namespace memlake::test
