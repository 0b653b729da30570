#pragma once

// The habits of a lake, as numbers. None is meant for users: one set for all programs.

#include "base/bytes.hpp"

namespace memlake {

// Chosen on the traces of docs/reference/lake_figures.md; none is meant for users.
inline constexpr Bytes kLargestSmall = MiB;   // as PyTorch's: small requests have addresses of their own
inline constexpr Bytes kFillFrom = KiB * 64;  // small requests from here may fill slivers between large blocks ...
inline constexpr double kFillLevel = 0.97;    // ... once so much of the budget is held
inline constexpr Bytes kOwnChunksFrom =
    MiB * 128;  // blocks from here have chunks of their own; smaller ones share a quantum
inline constexpr Bytes kLargestQuantum = MiB * 512;
inline constexpr Bytes kSmallestQuantum = MiB * 24;
inline constexpr std::uint64_t kQuiet = 256;  // operations after which a lane that did not grow grows by less
inline constexpr double kThriftyFrom = 0.6;   // held of the budget: from here growth is kept small ...
inline constexpr double kFillingFrom = 0.7;   // ... and from here it will fill up anyway, so it goes in strides
inline constexpr Bytes kThriftyGrowth = MiB * 24;
inline constexpr Bytes kStride = MiB * 256;
inline constexpr double kLoading =
    0.5;  // a model is being loaded while less than this share of what is held was ever freed
inline constexpr Bytes kLoadingChunk = MiB * 256;
inline constexpr Bytes kOwnChunk =
    MiB * 48;  // own chunks of a block of n bytes: max(48 MiB, min(96 MiB, n / 4), n / 64)
inline constexpr std::uint64_t kSpareShare = 32;     // chunks are at most this part of what is spare,
inline constexpr std::uint64_t kSpareShareOwn = 48;  // or this, if they are a block's own: the last ones must be small
inline constexpr Bytes kSmallestOdd =
    MiB * 8;                             // an odd part from here is worth a mapping even if whole chunks would do
inline constexpr double kCrowded = 0.6;  // of the budget in use: from here pending memory is used behind waits ...
inline constexpr double kScarce = 0.01;  // ... and when less than this is left, the host waits before it gathers
inline constexpr double kDeep = 0.6;     // of its addresses: from here a range gives its deepest chunks first

}  // namespace memlake
