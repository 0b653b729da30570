#pragma once

// PrimitiveBlocks: the blocks of all primitive segments, cut and joined in whole chunks without a driver call. Makes
// segments and gives chunks back.

#include <memory>
#include <vector>

#include "blocks/block_map.hpp"
#include "policies/stitch/primitive_segment.hpp"

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

  /// New memory, as a free block that may be larger: it is joined with its neighbours. All or nothing.
  void grow(StreamId stream, Bytes size);
  /// Takes a run of chunks out of a block of any state; what is left of the block stays where it was. The result is in
  /// no index.
  Block* cut_out(Block* block, AddressRange run);
  /// A block that is in no index is in that state now, and joined with its neighbours.
  void put_back(Block* block, BlockState state);
  /// Gives a run of chunks of a free block back to the driver. pre: no view maps them, and no work is left that uses
  /// them.
  void release(Block* block, AddressRange run);

  static PrimitiveSegment& segment_of(const Block& block) { return static_cast<PrimitiveSegment&>(*block.memory); }

 private:
  /// Addresses of the stream that lost their memory; null if there is no such piece of this size.
  [[nodiscard]] Block* find_unmapped(StreamId stream, Bytes size) const;
  void remove_segment(Block* block);

  std::shared_ptr<Device> device_;
  Bytes chunk_;
  BlockMap map_;
  std::vector<std::unique_ptr<PrimitiveSegment>> segments_;  // found by a block's `memory`
  std::uint64_t segments_made_ = 0;
};

}  // namespace memlake
