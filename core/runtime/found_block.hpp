#pragma once

// FoundBlock: one block, as callers that know only its address see it.

#include "blocks/block.hpp"
#include "policies/space.hpp"
#include "pool/size_counts.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

struct FoundBlock {
  AddressRange range;
  Bytes requested;            ///< 0: it is free
  CUstream stream = nullptr;  ///< that it is for; of a free block: that gets it at once
  AddressRange segment;
  BlockState state = BlockState::free;  ///< free, live or pending
  bool is_small = false;
  bool is_one_allocation = false;  ///< of the driver; else the segment is a reservation with mapped chunks
  GraphPoolId graph_pool;          ///< whose memory it is
};

/// `streams`: of the block's pool. pre: the lock is held.
[[nodiscard]] inline FoundBlock found_block(const StreamTable& streams, const Space& space, const Block& block) {
  const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
  const auto& graph_pool = space.graph_pool();
  return {.range = {block.address, block.size},
          .requested = is_used ? block.requested : Bytes{0},
          .stream = streams.handle_of(is_used ? block.user : block.stream),
          .segment = block.memory->range,
          .state = is_used ? block.state : BlockState::free,
          .is_small = block.group->is_small || (is_used && SizeCounts::is_small(block.requested)),
          .is_one_allocation = block.memory->is_one_allocation(),
          .graph_pool = graph_pool == nullptr ? GraphPoolId{} : graph_pool->id};
}

}  // namespace memlake
