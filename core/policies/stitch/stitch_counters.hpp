#pragma once

// What stitching did for a pool.

#include <cstdint>

#include "supply/level.hpp"

namespace memlake {

struct StitchCounters {
  std::uint64_t stitches = 0;   ///< views that were made
  std::uint64_t hits = 0;       ///< requests that a view served which was there already
  std::uint64_t evictions = 0;  ///< views that were unmapped, to stay below a cap or because their chunks left
  Level in_use;                 ///< bytes in use through views: without them, so much more would have to be held

  /// Of the requests that views served, how many needed no driver call.
  [[nodiscard]] double hit_rate() const {
    return hits + stitches == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + stitches);
  }
};

}  // namespace memlake
