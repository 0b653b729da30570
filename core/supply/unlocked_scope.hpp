#pragma once

// UnlockedScope: a scope in which a thread does not hold its pool's lock, because it makes long driver calls and other
// threads go on with the memory that is there. docs/design/0012-... gives the rules.

#include <cstdint>

namespace memlake {

/// Gives up and takes the lock of a pool. A pool without a lock has none.
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
