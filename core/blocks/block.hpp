#pragma once

// Block: a piece of a segment. The blocks of a segment form a list in address order and tile it (I1).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.hpp"
#include "base/bytes.hpp"

namespace memlake {

/// The number of a stream in its pool. Free blocks are indexed by it.
using StreamId = std::uint32_t;

enum class BlockState : std::uint8_t {
  free,      ///< may serve a request of its stream
  live,      ///< in use by the caller
  pending,   ///< the caller freed it; other streams may still use it
  unmapped,  ///< addresses of an expandable segment without memory behind them
  lent,      ///< its bytes are in use through a view at other addresses, and are counted there
  dead,      ///< addresses that must not be used until their mapping can be undone, or is complete
  claimed,   ///< free, but kept for a request that a thread is serving without the lock
};

/// How the bytes of a freed block become available again.
enum class GiveBack : std::uint8_t {
  cached,      ///< for the block's stream at once, without a driver call
  with_calls,  ///< the same, but the space makes driver calls
  to_several,  ///< for several streams, so an event of every user must be complete first
  to_driver,   ///< the driver gets them back, so an event of every user must be complete first
};

struct BlockGroup;

/// The memory of a segment, as far as blocks need to know it. The derived classes own the memory.
struct SegmentMemory {
  AddressRange range;
  std::size_t place = 0;     ///< index in the space's list of segments
  std::uint64_t serial = 0;  ///< its sequence number among the segments of the space, unless the policy sets another
  Address lone;              ///< of an expandable segment: its begin in LoneAddresses
  Bytes page;  ///< of an expandable segment: the unit in which it is mapped and unmapped; 0 for memory of one piece

  SegmentMemory(AddressRange covered, Bytes page_size) : range(covered), page(page_size) {}
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;
  virtual ~SegmentMemory() = default;

  [[nodiscard]] bool is_expandable() const { return page.count != 0; }
  /// Whether it is one allocation of the driver, not mapped chunks.
  [[nodiscard]] virtual bool is_one_allocation() const { return !is_expandable(); }
  /// The number of bytes of physical memory at its addresses.
  [[nodiscard]] virtual Bytes mapped() const = 0;
};

struct Block {
  Address address;
  Bytes size;
  Bytes requested;            ///< size that the caller asked for; the last caller's while the block is free
  BlockGroup* group;          ///< its group: the small or the large blocks
  SegmentMemory* memory;      ///< the memory of its segment
  Block* previous = nullptr;  ///< neighbours in the segment
  Block* next = nullptr;
  StreamId stream;    ///< of its segment: the stream that may use it at once when it is free
  StreamId user = 0;  ///< the stream that requested it
  BlockState state;
  GiveBack give_back = GiveBack::cached;
  std::uint16_t space = 0;    ///< of a live or pending block: the number of its space in the pool
  std::uint32_t awaited = 0;  ///< number of events that must complete before it is free
  std::uint64_t idle_since =
      0;                        ///< number of searches of its group when it became free: its age for garbage collection
  std::uint64_t id = 0;         ///< sequence number of the caller's allocation
  std::vector<StreamId> users;  ///< other streams that recorded a use

  [[nodiscard]] bool is_whole_segment() const { return previous == nullptr && next == nullptr; }
  [[nodiscard]] Address end() const { return address + size; }
};

/// A free block that covers a whole segment.
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
