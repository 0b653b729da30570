#pragma once

// Range: addresses of one stream and one class of sizes. Memory is added at its lower end, and blocks are cut from the
// high end of a free run. So the free part of a chunk is mostly its first part, which CUDA can map a second time.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "blocks/block.hpp"
#include "blocks/free_index.hpp"
#include "streams/stream_clock.hpp"
#include "vmm/mapping.hpp"

namespace memlake {

struct Lane;
struct LakeBlock;
struct LakeChunk;

/// Aliased mappings at the lower end of a live block. Their bytes have their home elsewhere and are lent to the block.
struct View {
  struct Piece {
    LakeChunk* chunk;
    LakeBlock* lent;  ///< their block at home
    Mapping mapping;
    Bytes begin;  ///< in the chunk
  };
  std::vector<Piece> pieces;  ///< from high to low addresses
  LakeBlock* dead = nullptr;  ///< addresses below the block that the lowest piece's mapping covers, too; may be null
  Address top;                ///< where the block's own memory begins
  std::uint64_t since = 0;    ///< as a chunk's
};

/// A block of a range. Its bytes may be partly another chunk's, shown by a view.
struct LakeBlock : Block {
  std::unique_ptr<View> view;    ///< of a live or pending block: the aliased part at its lower end
  StreamClock::Moment freed_at;  ///< of a free block: when the last of its bytes was freed
  bool is_spilled = false;       ///< of a free block: all its memory is the host's, else all is the devices'

  /// Of a free block.
  [[nodiscard]] StreamClock::Freed freed() const { return {stream, freed_at}; }
  LakeBlock* below() const { return static_cast<LakeBlock*>(previous); }
  LakeBlock* above() const { return static_cast<LakeBlock*>(next); }
};

class Range final : public SegmentMemory {
 public:
  /// `reserved` owns the addresses; a map in a test needs no owner.
  Range(Lane& of, AddressRange addresses, std::shared_ptr<Reservation> reserved, Bytes granule);

  Lane& lane;
  std::shared_ptr<Reservation> reservation;
  LakeBlock* lowest = nullptr;  ///< the blocks tile the range
  LakeBlock* highest = nullptr;
  Bytes home;  ///< memory of the chunks that have their home here

  [[nodiscard]] Bytes mapped() const override { return home; }
  /// The chunk whose home covers the address; null if there is none.
  [[nodiscard]] LakeChunk* chunk_at(Address address) const {
    const std::size_t number = page_of(address);
    return number < chunks_.size() ? chunks_[number] : nullptr;
  }
  void set_chunk(AddressRange pages, LakeChunk* chunk);

 private:
  [[nodiscard]] std::size_t page_of(Address address) const {
    return (range.end().value - 1 - address.value) / page.count;
  }

  std::vector<LakeChunk*> chunks_;  // by page, from the top
};

/// One physical chunk, and its home: the address at which it is mapped whole.
struct LakeChunk {
  std::shared_ptr<PhysicalChunk> memory;
  std::optional<Mapping> home;
  Address address;
  Bytes size;
  Range* range = nullptr;
  std::size_t device = 0;   ///< by number in the space; the number of devices means: the host
  bool is_spilled = false;  ///< on the host because the devices had no room
  bool is_small = false;    ///< its latest home is for small requests
  bool is_counted = false;  ///< as held memory that an observer may be told of
  std::uint64_t since = 0;  ///< number of the settling that brought it here
  std::size_t place = 0;    ///< in the space's list
  std::uint32_t views = 0;  ///< aliased mappings of it that exist

  [[nodiscard]] AddressRange at() const { return {address, size}; }
};

/// The ranges of one stream for one class of sizes.
struct Lane {
  StreamId stream;
  BlockGroup& group;
  FreeIndex free{FreeIndex::Ties::high};
  FreeIndex spilled{FreeIndex::Ties::high};  ///< free blocks on the host, for when the devices have no room
  std::vector<std::unique_ptr<Range>> ranges = {};

  [[nodiscard]] bool is_small() const;
};

/// A part of a free run in a chunk: bytes [begin, end) of the chunk.
struct Part {
  LakeBlock* run;
  LakeChunk* chunk;
  Bytes begin;
  Bytes end;

  [[nodiscard]] Bytes size() const { return end - begin; }
  [[nodiscard]] AddressRange place() const { return {chunk->address + begin, size()}; }
};

}  // namespace memlake
