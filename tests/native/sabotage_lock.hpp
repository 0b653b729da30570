#pragma once

// LockSabotage: lets a test hold the lock of a pool and see that another thread waits for it.

#include "runtime/live_pool.hpp"

namespace memlake::test {

struct LockSabotage {
  Lock& lock;

  explicit LockSabotage(LivePool& pool) : lock(pool.locked_.mutex_) {}
  [[nodiscard]] bool is_awaited() const { return lock.state_.load() == Lock::kAwaited; }
};

}  // namespace memlake::test
