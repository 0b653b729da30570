#pragma once

// The counters of a pool, in PyTorch's sense of the words: requested <= allocated <= held.

#include <cstdint>

#include "supply/level.hpp"

namespace memlake {

struct PoolStats {
#define LEVEL(name) Level name;
#define COUNT(name) std::uint64_t name = 0;
#include "pool/statistics.inc"
#undef LEVEL
#undef COUNT
  Bytes allocated_at_held_peak;  ///< `allocated` at the moment when `held` reached its peak
};

/// Calls `figure(name, value)` for every figure of the list, under the name that C and Python use.
template <class Figure>
void for_each_figure(const PoolStats& stats, Figure&& figure) {
#define LEVEL(name)                    \
  figure(#name, stats.name.now.count); \
  figure(#name "_peak", stats.name.peak.count);
#define COUNT(name) figure("num_" #name, stats.name);
#include "pool/statistics.inc"
#undef LEVEL
#undef COUNT
}

}  // namespace memlake
