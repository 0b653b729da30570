#pragma once

// Two facts about the process that owners need: whether it was forked (a child has its parent's objects but not its
// driver), and whether it is exiting.

#include <atomic>

namespace memlake {

/// Only for is_of_generation().
extern std::atomic<unsigned> counted_generation;

/// A number that changes in every forked child. Cheap: an atomic read, no system call. Forks count from the first call.
unsigned process_generation() noexcept;

/// Whether this is still the process in which process_generation() returned that number.
inline bool is_of_generation(unsigned number) noexcept {
  return counted_generation.load(std::memory_order_relaxed) == number;
}

/// From now on destructors of owners make no undo calls: device work may still be running, the driver may be gone, and
/// the operating system frees everything anyway. An explicit close() still makes its call.
void begin_exit() noexcept;
bool is_exiting() noexcept;

}  // namespace memlake
