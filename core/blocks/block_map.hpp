#pragma once

// BlockMap: all blocks of a pool. Cuts, joins and indexes them; knows no driver and decides nothing.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "blocks/block.hpp"
#include "blocks/free_index.hpp"

namespace memlake {

/// The small or the large blocks: they never mix.
struct BlockGroup {
  bool is_small;
  std::vector<std::unique_ptr<FreeIndex>> free = {};                   ///< by stream; null where there never was one
  std::map<std::pair<StreamId, std::uint64_t>, Block*> unmapped = {};  ///< by stream and lone address
  std::uint64_t searches = 0;                                          ///< the clock of garbage collection

  /// Null if the stream never had a free block.
  [[nodiscard]] const FreeIndex* index_of(StreamId stream) const {
    return stream < free.size() ? free[stream].get() : nullptr;
  }
};

class BlockMap {
 public:
  BlockGroup small{true};
  BlockGroup large{false};

  /// A block on its own: the whole of a new segment.
  Block* make(SegmentMemory& memory, BlockGroup& group, StreamId stream, AddressRange range, BlockState state);
  void destroy(Block* block);

  /// Every block, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Block& block : store_)
      if (block.memory != nullptr) visit(block);
  }

  /// Into or out of the index of its state: free blocks by size, unmapped ones by address.
  void index(Block* block);
  void unindex(Block* block);

  /// Cuts `block` after `size` bytes. Returns the front part; `block` becomes the rest. Neither is indexed.
  Block* cut_front(Block* block, Bytes size);
  /// Cuts `block` after `size` bytes. Returns the rest; `block` keeps the front. Neither is indexed.
  Block* cut_back(Block* block, Bytes size);

  /// Swallows the neighbours that are in the same state (I2). pre: `block` is not indexed; they are.
  void merge(Block* block);

 private:
  static std::pair<StreamId, std::uint64_t> place_of(const Block& unmapped);
  Block* take_from_store();
  void swallow(Block* block, Block* neighbour);

  std::deque<Block> store_;  // blocks never move
  std::vector<Block*> unused_;
};

}  // namespace memlake
