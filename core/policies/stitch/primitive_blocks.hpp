#pragma once

// PrimitiveBlocks: the blocks of all primitive segments. It splits and merges them in whole chunks without a driver
// call, creates segments and releases chunks.

#include <memory>
#include <vector>

#include "blocks/block_map.hpp"
#include "policies/stitch/primitive_segment.hpp"
#include "policies/watch.hpp"

namespace memlake {

class PrimitiveBlocks {
 public:
  /// `chunk`: a multiple of the device's granule.
  PrimitiveBlocks(std::shared_ptr<Device> device, Bytes chunk) : device_(std::move(device)), chunk_(chunk) {}

  [[nodiscard]] Bytes chunk() const { return chunk_; }
  [[nodiscard]] const BlockMap& map() const { return map_; }
  [[nodiscard]] const BlockGroup& group() const { return map_.large; }
  [[nodiscard]] const std::vector<std::unique_ptr<PrimitiveSegment>>& segments() const { return segments_; }
  /// Null if the stream never had a free block.
  [[nodiscard]] const FreeIndex* free_of(StreamId stream) const { return map_.large.index_of(stream); }
  [[nodiscard]] Bytes free_bytes_of(StreamId stream) const;

  /// Adds new memory as a free block, which may get larger because it is merged with its neighbours. All or nothing.
  void grow(StreamId stream, Bytes size);
  /// Cuts a run of chunks out of a free or unmapped block; the rest stays indexed. The result is in no index.
  Block* cut_out(Block* block, AddressRange run);
  /// Sets the state of a block that is in no index, merges it with its neighbours and indexes it.
  void put_back(Block* block, BlockState state);
  /// Releases a run of chunks of a free block to the driver. pre: no view maps them, and no work uses them.
  void release(Block* block, AddressRange run);

  Watch watch;  ///< changes of the memory at the segments' own addresses

  static PrimitiveSegment& segment_of(const Block& block) { return static_cast<PrimitiveSegment&>(*block.memory); }

 private:
  /// An unmapped block of the stream with at least this size; null if there is none.
  [[nodiscard]] Block* find_unmapped(StreamId stream, Bytes size) const;
  void remove_segment(Block* block);

  std::shared_ptr<Device> device_;
  Bytes chunk_;
  BlockMap map_;
  std::vector<std::unique_ptr<PrimitiveSegment>> segments_;  // each at its `place`
  std::uint64_t segments_made_ = 0;
};

}  // namespace memlake
