#include "base/lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memlake {
namespace {

// About a microsecond: longer than any section without a driver call, shorter than falling asleep and waking up.
constexpr int kLooks = 64;

void pause_a_moment() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Lock::wait() noexcept {
  for (int i = 0; i < kLooks; ++i) {
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    pause_a_moment();
  }
  // From here on whoever takes it says that others may be asleep: it cannot know that none is.
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, nullptr, nullptr, 0);
}

void Lock::wake() noexcept { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace memlake
