#pragma once

// The counters of stitching in one space.

#include <cstdint>

#include "supply/level.hpp"

namespace memlake {

struct StitchCounters {
  std::uint64_t stitches = 0;   ///< views that were created
  std::uint64_t hits = 0;       ///< requests that a cached view served
  std::uint64_t evictions = 0;  ///< views that were unmapped for a limit, or for their chunks or addresses
  Level in_use;                 ///< bytes in use through views: without views, so much more would have to be held

  /// The share of the requests served by views that needed no driver call.
  [[nodiscard]] double hit_rate() const {
    return hits + stitches == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + stitches);
  }
};

}  // namespace memlake
