#pragma once

// PrimitiveSegment: a segment with chunks and addresses of its own, whose chunks stitched views may map a second time.
// Knows which block lies where, so that a view can ask about its parts.

#include <cstdint>
#include <vector>

#include "policies/segments/segments.hpp"

namespace memlake {

struct StitchedView;

class PrimitiveSegment final : public ExpandableSegment {
 public:
  PrimitiveSegment(std::shared_ptr<Device> device, Bytes size, Bytes chunk);

  /// The block that an address lies in.
  [[nodiscard]] Block* block_at(Address address) const;
  /// The same for a check, which trusts nothing: null if the address is not the segment's, or no block begins at or
  /// before it.
  [[nodiscard]] const Block* find_block_at(Address address) const;

  /// A block begins where it says, and none begins there any more. Both in whole chunks.
  void begins(Block* block);
  void begins_no_more(Address at);

  std::vector<StitchedView*> views = {};  ///< those that map a chunk of it, each once

 private:
  std::vector<Block*> beginning_;        // by chunk; old entries stay where the bit is not set
  std::vector<std::uint64_t> is_begin_;  // one bit per chunk
};

}  // namespace memlake
