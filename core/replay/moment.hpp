#pragma once

// Moments: the blocks of a pool after chosen rows of a replay.

#include <cstdint>
#include <vector>

#include "pool/pool.hpp"

namespace memlake {

/// One block at a moment. All fields are as wide as the widest, so that a list of them is a table of numbers.
struct MomentBlock {
  std::uint64_t segment;  ///< address of its segment
  std::uint64_t segment_size;
  std::uint64_t page;  ///< of an expandable segment, else 0
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t requested;  ///< 0 unless it is live or pending
  std::uint64_t stream;     ///< that requested it, or that may use it at once
  std::uint64_t state;      ///< BlockState
  std::uint64_t is_small;   ///< whether it is in a segment for small requests
  std::uint64_t id;  ///< of a block in use: sequence number of the allocation among those that got memory; else 0
};

/// The moments of one replay, one after the other.
struct Moments {
  std::vector<std::uint64_t> rows;    ///< the row after which each moment is
  std::vector<std::uint64_t> starts;  ///< where the blocks of each moment begin in `blocks`
  std::vector<MomentBlock> blocks;    ///< by address within a moment; without addresses that have no memory

  /// Adds the blocks of the pool as the moment after a row.
  void add(std::uint64_t row, const Pool& pool);
};

}  // namespace memlake
