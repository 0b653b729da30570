#pragma once

// The constants of a lake, one set for all programs. docs/reference/lake_figures.md has the traces and the patterns of
// scattered memory that they were chosen on; the unit of a share is the budget.

#include "base/bytes.hpp"

namespace memlake {

// Requests up to here have addresses of their own, as PyTorch's small requests: they live longer or shorter than large
// ones, and would keep chunks of large blocks in their places. Their memory is made one granule at a time.
inline constexpr Bytes kLargestSmall = MiB;
inline constexpr Bytes kFillFrom = KiB * 64;  // small requests from here may fill slivers between large blocks ...
inline constexpr double kFillLevel = 0.97;    // ... once so much of the budget is held

// A large block of n bytes is made of chunks of n / 4 between these two sizes, and of n / 128 if that is more. So a
// free run, however it came about, strands about a quarter of itself at most. Larger chunks gather less from memory
// that was reused (32 MiB: 0.75 instead of 0.83 of the free bytes, blocks of 20 to 200 MiB) and fit less well
// (mean 1.0050 instead of 1.0044 of the live peak on 23 traces). Smaller ones cost more driver time (16 MiB: 0.90
// instead of 0.68 of expandable segments' in the first third of the steps). Blocks of many GiB move as a whole: chunks
// of n / 128 halve what a move costs.
inline constexpr Bytes kSmallestChunk = MiB * 8;
inline constexpr Bytes kLargestChunk = MiB * 20;
inline constexpr std::uint64_t kChunksPerBlock = 4;
inline constexpr std::uint64_t kMostChunksPerBlock = 128;

inline constexpr Bytes kSmallestOdd =
    MiB * 8;                             // an odd part from here is worth a mapping even if whole chunks would do
inline constexpr double kCrowded = 0.6;  // of the budget in use: from here pending memory is used behind waits ...
inline constexpr double kScarce = 0.01;  // ... and when less than this is left, the host waits before it gathers
inline constexpr double kDeep = 0.6;     // of its addresses: from here a range gives its deepest chunks first

}  // namespace memlake
