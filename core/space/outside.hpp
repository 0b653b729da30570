#pragma once

// Outside: how a space leaves the lock of its pool while it makes long driver calls, so that other threads go on with
// what is there. A pool without a lock has none. docs/design/0012-... gives the rules.

#include <cstdint>

namespace memlake {

class Outside {
 public:
  Outside() = default;
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  virtual ~Outside() = default;

  /// Gives the lock back.
  virtual void leave() noexcept = 0;
  /// Takes it again.
  virtual void come_back() noexcept = 0;
  /// Waits, without the lock, until all who are outside now, or as many others, have come back. pre: the lock is held.
  virtual void wait_for_others() noexcept = 0;
};

/// One stay outside: without the lock from the beginning of its life to the end.
class Absence {
 public:
  explicit Absence(Outside* outside) noexcept : outside_(outside) {
    if (outside_ != nullptr) outside_->leave();
  }
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;
  ~Absence() {
    if (outside_ != nullptr) outside_->come_back();
  }

 private:
  Outside* outside_;
};

}  // namespace memlake
