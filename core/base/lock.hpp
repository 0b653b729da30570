#pragma once

// Lock: a mutex for critical sections of about a hundred nanoseconds. Without contention, locking and unlocking are one
// inlined atomic operation each. A thread that finds it locked spins for about a microsecond and then sleeps.

#include <atomic>
#include <cstdint>

namespace memlake {

namespace test {
struct LockSabotage;
}

/// A Lockable of the standard library.
class Lock {
  friend struct test::LockSabotage;  // sees whether a thread waits

 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kTaken = 1;
  static constexpr std::uint32_t kAwaited = 2;  ///< taken, and a thread may be asleep waiting for it

  void wait() noexcept;
  void wake() noexcept;

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace memlake
