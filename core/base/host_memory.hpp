#pragma once

// The host's physical memory, as the operating system reports it.

#include "base/bytes.hpp"

namespace memlake {

/// Total; 0 if unknown.
Bytes host_memory() noexcept;
/// Not in use now; 0 if unknown.
Bytes free_host_memory() noexcept;

}  // namespace memlake
