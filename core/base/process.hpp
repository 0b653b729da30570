#pragma once

// Which process this is, counted in forks. A forked child has its parent's objects but not its driver.

namespace memlake {

/// Changes in every forked child. Cheap: an atomic read, no system call. The first call starts the counting.
unsigned process_generation() noexcept;

}  // namespace memlake
