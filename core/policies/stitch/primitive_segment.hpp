#pragma once

// PrimitiveSegment: a segment whose chunks stitched views may map a second time. It finds the block at an address, so
// that a view can check its parts.

#include <cstdint>
#include <vector>

#include "policies/segments/segments.hpp"

namespace memlake {

struct StitchedView;

class PrimitiveSegment final : public ExpandableSegment {
 public:
  PrimitiveSegment(std::shared_ptr<Device> device, Bytes size, Bytes chunk);

  /// The block that contains the address.
  [[nodiscard]] Block* block_at(Address address) const;
  /// The block that contains the address, for a check, which relies on nothing: null if the address is outside the
  /// segment, or no block begins at or before it.
  [[nodiscard]] const Block* find_block_at(Address address) const;

  /// Records that a block begins at its address, or that no block begins there any more. Chunks begin at both.
  void begins(Block* block);
  void begins_no_more(Address at);

  std::vector<StitchedView*> views = {};  ///< the views that map a chunk of it, each once

 private:
  std::vector<Block*> beginning_;        // by chunk; valid only if the bit in is_begin_ is set
  std::vector<std::uint64_t> is_begin_;  // one bit per chunk
};

}  // namespace memlake
