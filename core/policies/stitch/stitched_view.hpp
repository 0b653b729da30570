#pragma once

// StitchedView: maps chunks of several primitive blocks a second time, as one contiguous range. While the view is in
// use, it is one block, and its parts are lent to it. While it is not in use, its parts are free or in use like other
// blocks; if one is in use, the view is shadowed. A request may use only the front of a view: then only the parts under
// the front are lent.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/stitch/primitive_segment.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {

struct StitchedView final : public SegmentMemory {
  struct Part {
    PrimitiveSegment* segment;
    AddressRange run;  ///< at the segment's own addresses
    Bytes offset;      ///< in the view

    /// The part of the run that lies under the first `front` bytes of the view.
    [[nodiscard]] AddressRange under(Bytes front) const {
      return {run.begin, front <= offset ? Bytes{0} : std::min(run.size, front - offset)};
    }
  };

  /// Maps the chunks of the parts in order, all or nothing. pre: the parts are free.
  StitchedView(const std::shared_ptr<Device>& device, std::vector<Part> parts_in_order, BlockGroup& group,
               StreamId stream);

  [[nodiscard]] Bytes mapped() const override { return range.size; }
  [[nodiscard]] bool is_one_allocation() const override { return false; }
  /// Whether memory under the first `front` bytes is in use elsewhere.
  [[nodiscard]] bool is_shadowed(Bytes front);
  [[nodiscard]] bool is_in_use() const { return block.state == BlockState::live || block.state == BlockState::pending; }
  [[nodiscard]] bool touches(const PrimitiveSegment& segment, AddressRange run) const;

  /// Unmaps everything behind its first `front` bytes. If that fails, it throws and unmaps nothing. Its addresses stay
  /// reserved. pre: no work uses the bytes behind the front.
  void shorten(Bytes front);

  std::vector<Part> parts;
  StitchedRange memory;
  Block block;  ///< the block of a request: the whole view or its front

  // For ViewCache: the list of the views that are not in use, in the order of their last use.
  StitchedView* older = nullptr;
  StitchedView* newer = nullptr;

 private:
  [[nodiscard]] static bool is_free(const Part& part, Bytes front);

  std::size_t obstacle_ = 0;  // the part that was found in use last time: it is checked first
};

}  // namespace memlake
