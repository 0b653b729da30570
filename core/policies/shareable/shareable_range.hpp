#pragma once

// ShareableRange: neighbouring mappings of exportable chunks, and the one block over all of them. A chunk never serves
// two blocks, so a process that imports it sees only the bytes of this block.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "blocks/block.hpp"
#include "blocks/block_map.hpp"
#include "streams/stream_clock.hpp"
#include "vmm/mapping.hpp"

namespace memlake {

struct ShareableRange final : SegmentMemory {
  /// One chunk at its place.
  struct Part {
    Mapping mapping;
    std::size_t device;  ///< by number in the space

    [[nodiscard]] Bytes size() const { return mapping.range().size; }
  };

  /// pre: the parts are neighbours, in order of their addresses.
  ShareableRange(std::vector<Part> neighbours, Bytes granule, BlockGroup& group, StreamId stream)
      : SegmentMemory(covered_by(neighbours), granule), parts(std::move(neighbours)) {
    block = block_over(*this, group, stream);
  }

  [[nodiscard]] Bytes mapped() const override { return range.size; }
  /// pre: it is free.
  [[nodiscard]] StreamClock::Freed freed() const { return {block.stream, freed_at}; }
  /// The number of last parts that together have exactly `size` bytes; 0 if there is no such number.
  [[nodiscard]] std::size_t parts_at_end(Bytes size) const {
    Bytes sum{0};
    for (std::size_t count = 1; count <= parts.size() && sum < size; ++count) {
      sum = sum + parts[parts.size() - count].size();
      if (sum == size) return count;
    }
    return 0;
  }

  void drop_last(std::size_t count) {
    while (count-- > 0) parts.pop_back();
  }
  /// Called after drop_last(), with the size of the dropped parts.
  void shrink_by(Bytes size) {
    range.size = range.size - size;
    block.size = range.size;
  }

  std::vector<Part> parts;
  Block block{};
  StreamClock::Moment freed_at;  ///< while it is free: the moment of the free
  bool is_exported = false;
  bool is_stock = false;  ///< created in advance and not used yet: it may be split

 private:
  static AddressRange covered_by(const std::vector<Part>& neighbours) {
    const Address begin = neighbours.front().mapping.range().begin;
    return {begin, neighbours.back().mapping.range().end() - begin};
  }
};

}  // namespace memlake
