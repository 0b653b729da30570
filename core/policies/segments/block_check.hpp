#pragma once

// What must always hold of segments and their blocks, verified from the blocks themselves.

#include <vector>

#include "blocks/block_map.hpp"
#include "policies/invariant_report.hpp"

namespace memlake {

/// I1, I2 and I3 of all blocks, that `segments` is in the order of their places (I5), and that free blocks are offered
/// to the stream of their segment (I6).
void check_blocks(const BlockMap& map, const std::vector<const SegmentMemory*>& segments, InvariantReport& report);

}  // namespace memlake
