#pragma once

// UnlockedScope: a scope in which a thread makes long driver calls without holding its pool's lock, so that other
// threads can use the memory that exists. docs/design/0012-... gives the rules.

#include <cstdint>

namespace memlake {

/// Unlocks and locks a pool. A pool without a lock has no Unlocker.
class Unlocker {
 public:
  Unlocker() = default;
  Unlocker(const Unlocker&) = delete;
  Unlocker& operator=(const Unlocker&) = delete;
  virtual ~Unlocker() = default;

  virtual void unlock() noexcept = 0;
  virtual void lock_again() noexcept = 0;
  /// Waits, without the lock, until as many threads have left an unlocked scope as are in one now. pre: the calling
  /// thread holds the lock.
  virtual void wait_for_others() noexcept = 0;
};

class UnlockedScope {
 public:
  explicit UnlockedScope(Unlocker* unlocker) noexcept : unlocker_(unlocker) {
    if (unlocker_ != nullptr) unlocker_->unlock();
  }
  UnlockedScope(const UnlockedScope&) = delete;
  UnlockedScope& operator=(const UnlockedScope&) = delete;
  ~UnlockedScope() {
    if (unlocker_ != nullptr) unlocker_->lock_again();
  }

 private:
  Unlocker* unlocker_;
};

}  // namespace memlake
