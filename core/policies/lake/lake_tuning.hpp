#pragma once

// LakeTuning: the constants of a lake, one set for all programs. docs/reference/lake_figures.md has the traces and the
// patterns of scattered memory on which they were chosen. tests/native/test_lake_tuning.cpp has a program for each
// constant that fails without it.

#include "base/bytes.hpp"

namespace memlake {

struct LakeTuning {
  /// Requests up to this size have lanes of their own, as PyTorch's small requests have. They live longer or shorter
  /// than large blocks, and would keep chunks of large blocks in their places. Their memory is made one granule at a
  /// time.
  Bytes largest_small = MiB;

  // A large block of n bytes is made of chunks of n / chunks_per_block, between smallest_chunk and largest_chunk, and
  // of n / most_chunks_per_block if that is more. A free run then strands about a quarter of itself at most.

  /// Larger: blocks of 3 to 60 MiB gather less than their bar after memory was reused (12 MiB: 0.73 instead of 0.77 of
  /// the free bytes). Smaller: more handles where blocks are small (train_sdxl_R).
  Bytes smallest_chunk = MiB * 8;
  /// Larger: blocks of 20 to 200 MiB gather less (32 MiB: 0.75 instead of 0.83), and traces fit less well (mean 1.0050
  /// instead of 1.0044 of the live peak on 23 traces). Smaller: more driver time (16 MiB: 0.90 instead of 0.68 of
  /// expandable segments' in the first third of the steps).
  Bytes largest_chunk = MiB * 20;
  std::uint64_t chunks_per_block = 4;
  /// Blocks above 2.5 GiB move as a whole. Without this rule 23 traces cost 0.75 instead of 0.68 of expandable
  /// segments' driver time in the first third of the steps, and 1.2 instead of 0.93 seconds in the others (measured
  /// when the rule was added).
  std::uint64_t most_chunks_per_block = 128;

  /// Share of the budget that is in use. From here on, a request uses pending memory behind waits on the device before
  /// new memory is made. Without it, 8 instead of 5 of 29 traces run out of memory with late events on the smallest
  /// device on which they run with prompt events.
  double crowded = 0.6;
  // Addresses. All ranges together stay below eight times the memory of the devices: 6.4 times over a million moves of
  // a program with four streams (first ranges of six times the memory and later ones of a quarter: 9.5 times).

  /// Of the first range for large requests, in multiples of the devices' memory. With less, a program that moves chunks
  /// for long needs many ranges, and free runs of different ranges cannot become one block without a move.
  std::uint64_t first_range = 3;
  /// If all reservations of the process have more than this, a new range has no more than the request needs and
  /// lean_ranges: many pools of one process must find addresses, too. CUDA has 128 TiB for all, the emulator 32 TiB.
  Bytes generous = Bytes{std::uint64_t{8} << 40};
  /// The devices' memory divided by this.
  std::uint64_t lean_ranges = 64;
  /// Of later ranges for large requests, one per stream at least: the devices' memory divided by this.
  std::uint64_t later_ranges = 8;
  /// Of ranges for requests up to largest_small: the devices' memory divided by this.
  std::uint64_t small_ranges = 16;
};

}  // namespace memlake
