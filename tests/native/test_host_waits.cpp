// A thread that waits for a stream does not keep others from the pool.

#include <thread>
#include <tuple>

#include "base/interrupt.hpp"
#include "blocking_driver.hpp"
#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "random_program.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::OwnStream;
using test::take;

std::shared_ptr<LivePool> make(const std::shared_ptr<Device>& device, const std::string& policy) {
  return LivePool::make({device}, choose_policy(policy).space_maker({}), {});
}

/// A pool in which a request for 50 MiB must wait for a stream that does not go on by itself.
struct Waiting {
  test::EmulatedDevices devices{"devices=1,memory=64MiB,backing=none"};
  test::BlockingDriver driver{test::emulator().driver()};
  std::shared_ptr<Device> device = std::make_shared<Device>(devices[0], driver);
  OwnStream busy{device};
  OwnStream other{device};
  std::shared_ptr<LivePool> pool;
  std::uint64_t gate = 0;

  /// `is_own`: the memory was allocated for the busy stream; else that stream has only used it.
  explicit Waiting(const std::string& policy, bool is_own = false) : pool(make(device, policy)) {
    if (pool->settings().reuse_rules()) pool->settings().set_reuse_rules({true, true, false});
    take(*pool, {4096}).close();  // for the default stream, at once
    Lease lease = take(*pool, MiB * 40, is_own ? busy.name() : other.name());
    gate = test::emulator().emulator().hold(busy.owner->handle());
    fill(*device, lease.address(), 1, MiB * 40, busy.owner->handle());
    if (!is_own) lease.record_use(busy.name());
    lease.close();
  }
};

TEST(while_a_thread_waits_for_a_stream_others_get_memory_that_is_there) {
  using Rules = ReuseRules;
  const std::tuple<const char*, bool, Call, Rules> cases[] = {
      {"lake", false, Call::cuEventSynchronize, {true, true, false}},
      {"lake", true, Call::cuEventSynchronize, {true, true, false}},
      {"lake", false, Call::cuEventSynchronize, {true, false, false}},
      {"lake", true, Call::cuEventSynchronize, {false, true, false}},
      {"lake", true, Call::cuEventSynchronize, {false, false, false}},
      {"lake,aliasing:none", false, Call::cuEventSynchronize, {true, true, false}},
      {"lake,aliasing:none", true, Call::cuEventSynchronize, {true, true, true}},
      {"lake,aliasing:none", true, Call::cuEventSynchronize, {false, false, false}},
      {"caching", false, Call::cuEventSynchronize, {}},
      {"caching", true, Call::cuCtxSynchronize, {}},  // before cuMemFree, which waits for the device
      {"expandable", true, Call::cuEventSynchronize, {}},
      {"expandable", false, Call::cuEventSynchronize, {}},
      {"stitch", true, Call::cuEventSynchronize, {}},
      {"stitch", false, Call::cuEventSynchronize, {}},
      {"driver", true, Call::cuCtxSynchronize, {false, false, false}},
      {"driver", false, Call::cuEventSynchronize, {false, false, false}}};
  for (const auto& [policy, is_own, call, rules] : cases) {
    Waiting waiting(policy, is_own);
    LivePool& pool = *waiting.pool;
    if (pool.settings().reuse_rules()) pool.settings().set_reuse_rules(rules);
    waiting.driver.block(call);
    bool was_served = false;
    std::thread thread([&] {
      Shortage shortage;
      was_served = pool.allocate(MiB * 50, waiting.other.name(), shortage).has_value();
    });
    waiting.driver.wait_for_call();
    EXPECT(pool.figures().stats().host_waits > 0);
    take(pool, {4096}).close();
    expect_sound(pool);
    test::emulator().emulator().open_gate(waiting.gate);
    waiting.driver.let_go();
    thread.join();
    EXPECT(was_served);
    expect_sound(pool);
  }
}

TEST(a_request_that_is_served_while_another_thread_waits_does_not_count_its_retry) {
  Waiting waiting("caching");
  LivePool& pool = *waiting.pool;
  waiting.driver.block(Call::cuEventSynchronize);
  bool was_served = false;
  std::thread thread([&] {
    Shortage shortage;
    was_served = pool.allocate(MiB * 42, waiting.other.name(), shortage).has_value();
  });
  waiting.driver.wait_for_call();
  Lease grown = take(pool, MiB * 4, waiting.other.name());  // a new segment of 20 MiB, for which there is room
  EXPECT_EQ(pool.figures().stats().pool.retries, std::uint64_t{0});
  test::emulator().emulator().open_gate(waiting.gate);
  waiting.driver.let_go();
  thread.join();
  EXPECT(was_served);
  EXPECT_EQ(pool.figures().stats().pool.retries, std::uint64_t{1});  // it released the 40 MiB that had become free
  grown.close();
  expect_sound(pool);
}

TEST(a_pool_can_be_closed_while_a_thread_waits) {
  Waiting waiting("lake");
  waiting.driver.block(Call::cuEventSynchronize);
  bool was_refused = false;
  std::thread thread([&] {
    Shortage shortage;
    try {
      static_cast<void>(waiting.pool->allocate(MiB * 50, waiting.other.name(), shortage));
    } catch (const Error& error) {
      was_refused = error.kind() == ErrorKind::closed;
    }
  });
  waiting.driver.wait_for_call();
  test::emulator().emulator().open_gate(waiting.gate);
  waiting.pool->close();
  waiting.driver.let_go();
  thread.join();
  EXPECT(was_refused);
}

TEST(a_wait_that_is_interrupted_changes_nothing) {
  for (const char* policy : {"lake", "expandable", "stitch"}) {
    Waiting waiting(policy);
    Shortage shortage;
    bool was_interrupted = false;
    try {
      const InterruptScope scope([] { return true; });
      static_cast<void>(waiting.pool->allocate(MiB * 50, waiting.other.name(), shortage));
    } catch (const Interrupted&) {
      was_interrupted = true;
    }
    EXPECT(was_interrupted);
    expect_sound(*waiting.pool);
    test::emulator().emulator().open_gate(waiting.gate);
    EXPECT(waiting.pool->allocate(MiB * 50, waiting.other.name(), shortage).has_value());
    expect_sound(*waiting.pool);
    waiting.device->synchronize();
    // The wait goes on with the pool until the stream has passed.
    while (waiting.pool.use_count() > 1) std::this_thread::yield();
  }
}

TEST(a_wait_lets_go_of_what_it_keeps_before_its_caller_goes_on) {
  const InterruptScope scope([] { return false; });
  const auto kept = std::make_shared<int>(0);
  for (int i = 0; i < 1000; ++i) {
    wait_interruptibly([kept] {});
    EXPECT_EQ(kept.use_count(), 1);
  }
}

TEST(an_error_of_a_wait_reaches_the_caller_also_from_another_thread) {
  const InterruptScope scope([] { return false; });
  EXPECT_ERROR(config, wait_interruptibly([] { throw Error(ErrorKind::config, "no"); }));
  int runs = 0;
  wait_interruptibly([&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace memlake
