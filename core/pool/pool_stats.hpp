#pragma once

// The counters of a pool, in PyTorch's sense of the words: requested <= allocated <= held.

#include <cstdint>

#include "supply/level.hpp"

namespace memlake {

struct PoolStats {
  Level requested;               ///< what callers asked for, until their blocks are free again
  Level allocated;               ///< their blocks with slack, until the call of free
  Level active;                  ///< their blocks with slack, until they are free again
  Level held;                    ///< physical memory, created and not released
  Level held_on_host;            ///< beside it: on the host, because the devices had no room
  Bytes allocated_at_held_peak;  ///< read when `held` was last at its peak for the first time
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t retries = 0;  ///< requests for which everything cached was given back
  std::uint64_t ooms = 0;
};

}  // namespace memlake
