#pragma once

// Checks the invariants of segments and their blocks, from the blocks themselves.

#include <vector>

#include "blocks/block_map.hpp"
#include "policies/invariant_report.hpp"

namespace memlake {

/// Checks I1, I2 and I3 of all blocks, that `segments` is in the order of their places (I5), and that each free block
/// is in the free index of its segment's stream (I6).
void check_blocks(const BlockMap& map, const std::vector<const SegmentMemory*>& segments, InvariantReport& report);

}  // namespace memlake
