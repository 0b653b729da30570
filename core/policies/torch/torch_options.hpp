#pragma once

// The options of PyTorch's two allocators, with PyTorch's own defaults.

#include <array>
#include <cstdint>
#include <limits>

#include "base/bytes.hpp"

namespace memlake {

struct TorchOptions {
  static constexpr Bytes kUnlimited{std::numeric_limits<std::uint64_t>::max()};

  bool is_expandable = false;
  Bytes large_segment_size = MiB * 20;
  Bytes max_split_size = kUnlimited;        ///< blocks of at least this size are never split
  Bytes max_non_split_rounding = MiB * 20;  ///< slack allowed when such a block is reused
  double garbage_collection_threshold = 0;  ///< 0: off; needs a memory fraction
  /// Divisions per power of two, for requests of 1 MiB, 2 MiB, ... 32 GiB and more; 0 and 1: round to 512 bytes.
  std::array<std::uint32_t, 16> roundup_power2_divisions{};
  double memory_fraction = 1;  ///< share of the device that may be held; the creator of the pool turns it into a limit
};

}  // namespace memlake
