#include "base/process.hpp"

#include <pthread.h>

#include <atomic>

namespace memlake {

std::atomic<unsigned> counted_generation{1};

namespace {

std::atomic<bool> exit_has_begun{false};

}  // namespace

unsigned process_generation() noexcept {
  // An error here means no memory for the handler's record; then forks go unnoticed and the driver itself answers 3.
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { counted_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return counted_generation.load(std::memory_order_relaxed);
}

void begin_exit() noexcept { exit_has_begun.store(true); }

bool is_exiting() noexcept { return exit_has_begun.load(); }

}  // namespace memlake
