#pragma once

// What an owner must know about its process: whether it was forked (a child has its parent's objects but not its
// driver), and whether it is ending.

#include <atomic>

namespace memlake {

/// For is_of_generation() alone.
extern std::atomic<unsigned> counted_generation;

/// Changes in every forked child. Cheap: an atomic read, no system call. The first call starts the counting.
unsigned process_generation() noexcept;

/// Whether this is still the process in which process_generation() gave that number.
inline bool is_of_generation(unsigned number) noexcept {
  return counted_generation.load(std::memory_order_relaxed) == number;
}

/// From now on a dropped owner undoes nothing: device work may still be in flight, the driver may be gone, and the
/// system takes everything back anyway. An explicit close() still does what it says.
void begin_exit() noexcept;
bool is_exiting() noexcept;

}  // namespace memlake
