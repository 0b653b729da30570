#pragma once

// LakeMap: the ranges, blocks and chunks of a lake, and where they lie. It cuts, joins and indexes blocks. It decides
// nothing and makes no driver call of its own.

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "policies/lake/lake_lanes.hpp"
#include "policies/lake/range.hpp"
#include "policies/watch.hpp"

namespace memlake {

namespace test {
struct LakeSabotage;
}

class LakeMap {
  friend struct test::LakeSabotage;  // breaks it, so that tests see what a check reports

 public:
  explicit LakeMap(Bytes granule) : granule_(granule) {}
  LakeMap(const LakeMap&) = delete;
  LakeMap& operator=(const LakeMap&) = delete;

  [[nodiscard]] Bytes granule() const { return granule_; }
  [[nodiscard]] Bytes up(Bytes size) const { return size.rounded_up(granule_); }
  [[nodiscard]] Bytes down(Bytes size) const { return size.rounded_down(granule_); }
  /// The bytes of live and pending blocks.
  [[nodiscard]] Bytes used() const { return used_; }

  Watch watch;  ///< changes of the memory at the addresses of the lake

  // Lanes and ranges.
  [[nodiscard]] LakeLanes& lanes() { return lanes_; }
  [[nodiscard]] const LakeLanes& lanes() const { return lanes_; }
  /// Visits the free runs of devices' memory that have at least a granule, from the largest down in each lane.
  template <class Visit>
  void for_each_run(Visit&& visit) const {
    lanes_.for_each([&](const Lane& lane) {
      for (Block* run = lane.free.last(); run != nullptr && run->size >= granule_; run = lane.free.before(run))
        visit(*static_cast<LakeBlock*>(run));
    });
  }
  /// A range without memory at these addresses.
  Range& add_range(Lane& lane, AddressRange addresses, std::shared_ptr<Reservation> reserved);
  /// Drops the ranges that have neither memory nor blocks.
  void drop_bare_ranges();

  // Chunks.
  [[nodiscard]] std::span<const std::unique_ptr<LakeChunk>> chunks() const { return chunks_; }
  [[nodiscard]] Bytes largest_chunk() const { return largest_chunk_; }  ///< that was ever added
  LakeChunk& add_chunk(std::unique_ptr<LakeChunk> chunk);
  /// pre: it is mapped nowhere.
  void drop_chunk(LakeChunk& chunk);
  /// The chunk's home is at this address. `mapping`: its mapping there; a map in a test needs none.
  void settle(LakeChunk& chunk, Range& range, Address address, std::optional<Mapping> mapping);
  /// The chunk has no home any more. Returns the block that covered it, which is dead and keeps the addresses.
  LakeBlock* unsettle(const Part& whole);
  /// A number that is larger than all before.
  std::uint64_t next_settling() { return ++settlings_; }

  // Blocks.
  /// Cuts after `size` bytes; returns the high part. Neither part is indexed.
  LakeBlock* cut(LakeBlock* block, Bytes size);
  /// Adds a free block to the index of its lane.
  void index(LakeBlock* block);
  void unindex(LakeBlock* block);
  /// Joins a free block with its neighbours and indexes it. pre: it is not indexed.
  void offer(LakeBlock* block) {
    if (spilled_chunks_ != 0) [[unlikely]]
      return offer_in_parts(block);
    block->is_spilled = false;
    index(merge(block));
  }
  /// The block takes in the one above it. pre: neither is indexed.
  void swallow_above(LakeBlock* block);
  /// Joins a free or unmapped block with neighbours in the same state; free memory of devices and free memory of the
  /// host stay apart. pre: the block is not indexed; free neighbours are.
  LakeBlock* merge(LakeBlock* block);
  /// Makes a part of an indexed free block a block of its own, which is not indexed.
  LakeBlock* isolate(LakeBlock* block, AddressRange part);
  /// Takes the high end of an indexed free block for use.
  LakeBlock* take_high(LakeBlock* block, Bytes size);
  /// A block of this size is in use now, or is not in use any more.
  void count_used(Bytes size) { used_ = used_ + size; }
  void count_unused(Bytes size) { used_ = used_ - size; }

 private:
  LakeBlock* make_block(Range& range, AddressRange covered, BlockState state);
  void destroy(LakeBlock* block);
  /// offer() for a block whose memory may lie on devices and on the host.
  void offer_in_parts(LakeBlock* block);

  Bytes granule_;
  LakeLanes lanes_;
  std::vector<std::unique_ptr<LakeChunk>> chunks_;
  std::deque<LakeBlock> store_;  // blocks never move
  std::vector<LakeBlock*> unused_;
  std::size_t spilled_chunks_ = 0;
  std::uint64_t settlings_ = 0;
  std::uint64_t ranges_made_ = 0;
  Bytes used_;
  Bytes largest_chunk_;
};

}  // namespace memlake
