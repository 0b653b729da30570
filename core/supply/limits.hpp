#pragma once

// Limits: what a pool may hold, by each of the settings that say so. The smallest one binds.

#include <algorithm>

#include "supply/budget.hpp"

namespace memlake {

struct Limits {
  Limits() = default;
  Limits(Bytes own) : limit(own) {}  // NOLINT(google-explicit-constructor): most pools have this one alone

  Bytes limit = Budget::kUnlimited;            ///< of the pool; may be changed
  Bytes max_size = Budget::kUnlimited;         ///< of the pool, for its whole life
  Bytes memory_fraction = Budget::kUnlimited;  ///< of the device, as PyTorch's setting says

  [[nodiscard]] Bytes most() const { return std::min({limit, max_size, memory_fraction}); }
};

}  // namespace memlake
