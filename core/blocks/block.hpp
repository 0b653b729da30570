#pragma once

// Block: a piece of a segment. The blocks of a segment form a list in address order and tile it (I1).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.hpp"
#include "base/bytes.hpp"

namespace memlake {

/// A stream as the blocks know it: a small number. Blocks of different streams are ordered by it.
using StreamId = std::uint32_t;

enum class BlockState : std::uint8_t {
  free,      ///< may serve a request of its stream
  live,      ///< the caller holds it
  pending,   ///< the caller freed it; other streams may still use it
  unmapped,  ///< addresses of an expandable segment without memory behind them
  lent,      ///< its bytes are in use through other addresses, where they count
  dead,      ///< addresses that may not be used until what is mapped there can be unmapped, or is mapped
  claimed,   ///< free, but a request that is being served outside the lock will take it
};

/// What happens to the bytes of a block that is given back.
enum class GiveBack : std::uint8_t {
  cached,      ///< they serve its stream again at once, without a driver call
  with_calls,  ///< the same, but the space makes driver calls
  to_several,  ///< they belong to several streams, so every user must have passed an event first
  to_driver,   ///< they are released, so every user must have passed an event first
};

struct BlockGroup;

/// What a segment is made of. The pool's executor derives from it; here it only says how blocks in it behave.
struct SegmentMemory {
  AddressRange range;
  std::size_t place = 0;     ///< in the pool's list of segments
  std::uint64_t serial = 0;  ///< how many segments the pool made before it, if the policy says nothing else
  Address lone;              ///< of an expandable segment: where it would begin if the pool were alone
  Bytes page;  ///< of an expandable segment: what is mapped and unmapped at once; 0 for memory of one piece

  SegmentMemory(AddressRange covered, Bytes page_size) : range(covered), page(page_size) {}
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;
  virtual ~SegmentMemory() = default;

  [[nodiscard]] bool is_expandable() const { return page.count != 0; }
  /// How much memory is behind its addresses.
  [[nodiscard]] virtual Bytes mapped() const = 0;
};

struct Block {
  Address address;
  Bytes size;
  Bytes requested;            ///< of the caller; of the last one while it is free
  BlockGroup* group;          ///< the small or the large blocks
  SegmentMemory* memory;      ///< what the segment it lies in is made of
  Block* previous = nullptr;  ///< neighbours in the segment
  Block* next = nullptr;
  StreamId stream;    ///< of its segment: who may have it at once when it is free
  StreamId user = 0;  ///< of the caller: whom the allocation was made for
  BlockState state;
  GiveBack give_back = GiveBack::cached;
  std::uint8_t space = 0;     ///< of a live or pending block: the number of its space in the pool
  std::uint32_t awaited = 0;  ///< events that are still to come before it is free
  std::uint64_t idle_since =
      0;                        ///< number of searches of its group when it became free: its age for garbage collection
  std::uint64_t id = 0;         ///< of the caller's allocation: how many were made before it
  std::vector<StreamId> users;  ///< other streams that recorded a use

  [[nodiscard]] bool is_whole_segment() const { return previous == nullptr && next == nullptr; }
  [[nodiscard]] Address end() const { return address + size; }
};

/// A free block over all of a segment that has only this one.
inline Block block_over(SegmentMemory& memory, BlockGroup& group, StreamId stream) {
  Block block{};
  block.address = memory.range.begin;
  block.size = memory.range.size;
  block.group = &group;
  block.memory = &memory;
  block.stream = stream;
  block.state = BlockState::free;
  return block;
}

}  // namespace memlake
