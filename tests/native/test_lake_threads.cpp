// A lake that several threads use: memory is made outside the lock.

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "blocking_driver.hpp"
#include "lakes.hpp"

namespace memlake {
namespace {

using test::ask;
using test::calls;
using test::expect_sound;
using test::Leases;
using test::make_lake;
using test::take;

/// A lake whose driver can be held.
struct Held {
  test::EmulatedDevices devices{"devices=1,memory=512MiB,backing=none"};
  test::BlockingDriver driver{test::emulator().driver()};
  std::shared_ptr<LivePool> pool;

  explicit Held(Bytes limit = test::kUnlimited)
      : pool(make_lake({std::make_shared<Device>(devices[0], driver)}, {}, limit)) {}
};

/// A request in a thread of its own, which waits in the driver.
class Growing {
 public:
  Growing(Held& held, Bytes size, Call at = Call::cuMemCreate) : held_(held) {
    held.driver.block(at);
    thread_ = std::thread([this, size] {
      try {
        if (auto lease = ask(*held_.pool, size)) lease_ = std::make_unique<Lease>(*std::move(lease));
      } catch (const Error&) {
        has_thrown = true;
      }
    });
    held.driver.wait_for_call();
  }
  ~Growing() { finish(); }

  std::unique_ptr<Lease> finish() {
    held_.driver.let_go();
    if (thread_.joinable()) thread_.join();
    return std::move(lease_);
  }

  bool has_thrown = false;

 private:
  Held& held_;
  std::unique_ptr<Lease> lease_;
  std::thread thread_;
};

TEST(while_one_thread_waits_for_new_memory_others_are_served_from_what_is_there) {
  for (const Call at : {Call::cuMemCreate, Call::cuMemMap, Call::cuMemSetAccess}) {
    Held held;
    LivePool& pool = *held.pool;
    Lease high = take(pool, MiB * 40);
    const Lease low = take(pool, MiB * 8);  // new memory goes below this one, so what is above it is not claimed
    high.close();
    Growing growing(held, MiB * 200, at);
    const std::uint64_t made = calls(pool);
    // Every one of these would wait for ever if the lock were held.
    Lease cached = take(pool, MiB * 30);
    EXPECT(pool.figures().stats().live_count == 2);
    EXPECT(!pool.figures().snapshot().blocks.empty());
    expect_sound(pool);
    cached.close();
    EXPECT_EQ(calls(pool), made);
    take(pool, KiB).close();  // and what needs new memory gets it
    EXPECT(calls(pool) > made);
    expect_sound(pool);
    const auto large = growing.finish();
    EXPECT(large != nullptr && large->size() == MiB * 200);
    expect_sound(pool);
  }
}

TEST(the_run_that_a_growing_request_will_take_is_nobody_elses) {
  Held held;
  LivePool& pool = *held.pool;
  take(pool, MiB * 40).close();  // the run below which it grows
  const Bytes free = pool.figures().stats().pool.held.now;
  Growing growing(held, MiB * 60);
  const LiveStats meanwhile = pool.figures().stats();
  EXPECT(meanwhile.pool.held.now == free);  // what is being made is not held yet, what is claimed still is
  EXPECT(meanwhile.streams.front().free == free);
  EXPECT(meanwhile.largest_free < free);
  expect_sound(pool);
  const auto lease = growing.finish();
  EXPECT(pool.figures().held() < MiB * 100);  // it was used
  expect_sound(pool);
}

TEST(memory_that_is_being_made_counts_against_the_limit) {
  Held held(MiB * 256);
  LivePool& pool = *held.pool;
  Growing growing(held, MiB * 200);
  // A second one that would exceed the limit waits for the first, and is then refused.
  std::atomic<bool> is_refused = false;
  std::thread second([&] { is_refused = !ask(pool, MiB * 100).has_value(); });
  const auto first = growing.finish();
  second.join();
  EXPECT(first != nullptr);
  EXPECT(is_refused);
  EXPECT(pool.figures().held() <= MiB * 256);
  expect_sound(pool);
}

TEST(a_request_without_room_gets_what_another_thread_has_made_too_much_or_given_back) {
  Held held(MiB * 256);
  LivePool& pool = *held.pool;
  Growing growing(held, MiB * 200);
  std::unique_ptr<Lease> got;
  std::thread second([&] {
    if (auto lease = ask(pool, MiB * 56)) got = std::make_unique<Lease>(*std::move(lease));
  });
  const auto first = growing.finish();
  second.join();
  EXPECT(got != nullptr);
  EXPECT(pool.figures().held() <= MiB * 256);
  expect_sound(pool);
}

TEST(a_growth_that_fails_leaves_everything_as_it_was_while_others_went_on) {
  for (const Call at : {Call::cuMemCreate, Call::cuMemMap, Call::cuMemSetAccess})
    for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_TIMEOUT}) {
      Held held;
      LivePool& pool = *held.pool;
      Lease high = take(pool, MiB * 24);
      const Lease low = take(pool, MiB * 16);
      high.close();
      const Bytes before = pool.figures().held();
      Growing growing(held, MiB * 200, at);
      Lease cached = take(pool, MiB * 4);
      test::emulator().failing().fail(at, 1, fault);  // the one that waits
      const auto lease = growing.finish();
      test::emulator().failing().clear();
      if (fault == CUDA_ERROR_TIMEOUT) {
        EXPECT(growing.has_thrown);
        EXPECT(pool.figures().held() == before);
      }
      expect_sound(pool);
      cached.close();
      expect_sound(pool);
    }
}

TEST(closing_waits_for_a_request_that_is_being_served) {
  Held held;
  Growing growing(held, MiB * 64);
  std::string answer;
  std::thread closing([&] {
    try {
      held.pool->close();
    } catch (const Error& error) {
      answer = error.what();
    }
  });
  const auto lease = growing.finish();
  closing.join();
  EXPECT(lease != nullptr);
  EXPECT(answer.find("still has 1 live") != std::string::npos);
}

TEST(threads_that_grow_shrink_and_check_at_once_leave_a_sound_pool) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const auto pool = make_lake({devices[0], devices[1]}, {.may_spill = true}, MiB * 400);
  std::atomic<int> at_work = 4;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Leases live;
      for (int i = 0; i < 300; ++i) {
        const Bytes size = KiB * (1 + random() % (random() % 4 == 0 ? 60'000 : 2'000));
        if (auto lease = ask(*pool, size)) live.push_back(std::make_unique<Lease>(*std::move(lease)));
        while (live.size() > 6) {
          std::swap(live[random() % live.size()], live.back());
          live.pop_back();
        }
        if (random() % 50 == 0) pool->trim(MiB * 100);
      }
      --at_work;
    });
  while (at_work > 0) {
    expect_sound(*pool);
    EXPECT(pool->figures().held() <= MiB * 400);
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  expect_sound(*pool);
  pool->trim({0});
  EXPECT_EQ(pool->figures().held().count, 0u);
}

}  // namespace
}  // namespace memlake
