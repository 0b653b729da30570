#pragma once

// Interrupts: a thread that waits for a device can be told to stop waiting, for instance by a signal. Only the caller
// knows how to ask; the core asks while it waits.

#include <functional>

namespace memlake {

/// Thrown by a wait that was interrupted. What was waited for goes on.
struct Interrupted {};

/// For the calling thread and a scope: how to ask whether to stop waiting.
class InterruptScope {
 public:
  using Check = bool (*)();

  explicit InterruptScope(Check check) noexcept : before_(current_) { current_ = check; }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope() { current_ = before_; }

  /// Null if the thread cannot be interrupted.
  [[nodiscard]] static Check current() noexcept { return current_; }

 private:
  static thread_local Check current_;
  Check before_;
};

/// Runs `wait`, on another thread if the calling thread can be interrupted. Throws what `wait` throws, or Interrupted;
/// then `wait` is still running, so it must own all that it uses.
void wait_interruptibly(const std::function<void()>& wait);

}  // namespace memlake
