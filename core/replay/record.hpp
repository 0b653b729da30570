#pragma once

// Record: the actions of a program's own allocator, in the addresses of that program. A replay of the same requests can
// start from the first layout of the record, and can be compared with the record.

#include <cstdint>
#include <vector>

#include "base/address.hpp"
#include "blocks/block.hpp"

namespace memlake {

struct RecordedBlock {
  static constexpr std::uint32_t kNoId = UINT32_MAX;

  Bytes size;
  Bytes requested;
  BlockState state;
  std::uint32_t id = kNoId;  ///< of the allocation; `kNoId` for a free block
};

/// Memory in one piece, or a mapped part of an expandable segment. Its blocks tile it.
struct RecordedSegment {
  AddressRange range;
  StreamId stream = 0;
  bool is_small = false;
  bool is_expandable = false;
  std::vector<RecordedBlock> blocks = {};
};

/// Memory that the allocator created or released before a row of the trace.
struct RecordedEvent {
  enum class Kind { alloc, free, map, unmap };

  std::uint64_t row = 0;
  Kind kind = Kind::alloc;
  AddressRange range;
  StreamId stream = 0;

  [[nodiscard]] bool is_growth() const { return kind == Kind::alloc || kind == Kind::map; }
};

struct Record {
  std::vector<RecordedSegment> initial;  ///< memory in one piece only
  std::vector<RecordedEvent> events;     ///< in order
  std::uint64_t first_row = 0;           ///< the rows before it led to `initial`
};

}  // namespace memlake
