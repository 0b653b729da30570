#pragma once

// How PyTorch rounds a request and sizes a segment. The numbers are those of torch 2.13
// (c10/cuda/CUDACachingAllocator).

#include "base/bytes.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake::torch {

inline constexpr Bytes kMinBlock{512};
inline constexpr Bytes kLargestSmall = MiB;  ///< rounded requests up to this size are small
inline constexpr Bytes kSmallSegment = MiB * 2;
inline constexpr Bytes kMinLarge = MiB * 10;  ///< from here on a request gets a segment of its own size
inline constexpr Bytes kLargeRounding = MiB * 2;

/// The size of the block that serves a request.
Bytes round_request(Bytes requested, const TorchOptions& options);

/// The size of the segment that is created for a rounded request that finds no block.
Bytes segment_size(Bytes rounded, const TorchOptions& options);

inline bool is_small(Bytes rounded) { return rounded <= kLargestSmall; }

}  // namespace memlake::torch
