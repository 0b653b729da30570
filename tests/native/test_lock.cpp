// Lock: one at a time, and nobody is forgotten.

#include "base/lock.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "test.hpp"

namespace memlake {
namespace {

TEST(a_lock_lets_one_in_at_a_time) {
  Lock lock;
  std::uint64_t count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20000; ++k) {
        const std::lock_guard held(lock);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 160000u);
}

TEST(whoever_sleeps_at_a_lock_is_woken) {
  Lock lock;
  std::atomic<int> inside{0};
  lock.lock();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const std::lock_guard held(lock);
      ++inside;
    });
  EXPECT(!lock.try_lock());
  EXPECT_EQ(inside.load(), 0);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inside.load(), 4);
  EXPECT(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace memlake
