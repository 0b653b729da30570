#pragma once

// The segments and blocks of a memlake pool as PyTorch's snapshot shows them. A range of addresses with physical memory
// and without a gap is one segment, as with PyTorch's own expandable segments.

#include <memlake.h>

#include <vector>

#include "history.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

class SegmentList {
 public:
  SegmentList(DeviceIndex device, const History& history) : device_(device), history_(history) {}

  /// Adds the next block, which belongs to this pool of PyTorch's; blocks come by address.
  void add(const memlake_block_t& block, PoolId pool) {
    if (segments_.empty() || block.segment != range_ || block.address != end_ || mapped(block) != is_mapped_ ||
        (block.is_small != 0) == segments_.back().is_large || segments_.back().owner_private_pool_id != pool)
      begin(block, pool);
    SegmentInfo& segment = segments_.back();
    const bool is_live = block.state == MEMLAKE_BLOCK_LIVE;
    const bool is_active = is_live || block.state == MEMLAKE_BLOCK_PENDING;
    BlockInfo info;
    info.size = block.size;
    info.requested_size = block.requested;
    info.allocated = is_live;
    info.active = is_active;
    if (is_active) info.context_when_allocated = history_.stack_of(reinterpret_cast<const void*>(block.address));
    segment.total_size += block.size;
    if (is_live) segment.allocated_size += block.size;
    if (is_active) {
      segment.active_size += block.size;
      segment.requested_size += block.requested;
    }
    segment.blocks.push_back(std::move(info));
    end_ = block.address + block.size;
  }

  std::vector<SegmentInfo> take() { return std::move(segments_); }

 private:
  static bool mapped(const memlake_block_t& block) { return block.segment_is_mapped != 0; }

  void begin(const memlake_block_t& block, PoolId pool) {
    SegmentInfo segment;
    segment.device = device_;
    segment.address = block.address;
    segment.stream = static_cast<cudaStream_t>(block.stream);
    segment.is_large = block.is_small == 0;
    segment.is_expandable = mapped(block);
    segment.owner_private_pool_id = pool;
    segments_.push_back(std::move(segment));
    range_ = block.segment;
    is_mapped_ = mapped(block);
  }

  const DeviceIndex device_;
  const History& history_;
  std::vector<SegmentInfo> segments_;
  uint64_t range_ = 0;
  uint64_t end_ = 0;
  bool is_mapped_ = false;
};

}  // namespace memlake_torch
