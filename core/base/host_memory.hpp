#pragma once

// The memory of the machine itself, as the system tells it.

#include "base/bytes.hpp"

namespace memlake {

/// All that is built in.
Bytes host_memory() noexcept;
/// What nobody uses now.
Bytes free_host_memory() noexcept;

}  // namespace memlake
