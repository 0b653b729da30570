#pragma once

// BlockMap: all blocks of a space. It splits, merges and indexes them. It calls no driver and makes no decisions.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "blocks/block.hpp"
#include "blocks/free_index.hpp"

namespace memlake {

/// The small or the large blocks. A segment has blocks of one group only.
struct BlockGroup {
  bool is_small;
  std::vector<std::unique_ptr<FreeIndex>> free = {};                   ///< by stream; null if it never had a free block
  std::map<std::pair<StreamId, std::uint64_t>, Block*> unmapped = {};  ///< by stream and lone address
  std::uint64_t searches = 0;                                          ///< number of searches; gives blocks their age

  /// Null if the stream never had a free block.
  [[nodiscard]] const FreeIndex* index_of(StreamId stream) const {
    return stream < free.size() ? free[stream].get() : nullptr;
  }
};

class BlockMap {
 public:
  BlockGroup small{true};
  BlockGroup large{false};

  /// A block over `range`, without neighbours and in no index.
  Block* make(SegmentMemory& memory, BlockGroup& group, StreamId stream, AddressRange range, BlockState state);
  void destroy(Block* block);

  /// Visits every block, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Block& block : store_)
      if (block.memory != nullptr) visit(block);
  }

  /// Adds the block to, or removes it from, the index of its state: free blocks by size, unmapped ones by address.
  void index(Block* block);
  void unindex(Block* block);

  /// Cuts `block` after `size` bytes. Returns the front part; `block` becomes the rest. Neither is indexed.
  Block* cut_front(Block* block, Bytes size);
  /// Cuts `block` after `size` bytes. Returns the rest; `block` keeps the front. Neither is indexed.
  Block* cut_back(Block* block, Bytes size);

  /// Gives back the memory of the indices that have no block.
  void shrink() {
    for (BlockGroup* group : {&small, &large})
      for (const auto& index : group->free)
        if (index != nullptr) index->shrink();
  }

  /// Merges the neighbours that are in the same state into `block` (I2). pre: `block` is not indexed, they are.
  void merge(Block* block);

 private:
  static std::pair<StreamId, std::uint64_t> place_of(const Block& unmapped);
  Block* take_from_store();
  void swallow(Block* block, Block* neighbour);

  std::deque<Block> store_;  // blocks never move
  std::vector<Block*> unused_;
};

}  // namespace memlake
