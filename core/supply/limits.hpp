#pragma once

// Limits: the settings that limit how much a pool may hold. The smallest one applies.

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
