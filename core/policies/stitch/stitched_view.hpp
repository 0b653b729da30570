#pragma once

// StitchedView: second addresses over the chunks of several primitive blocks. While it is in use it is one block, and
// its parts are lent to it; while it is not, its parts are free or in use like any others, and if one is in use the
// view is shadowed. A request may use only the front of a view: then only the parts under the front are lent.

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

    /// What of the run lies under the first `front` bytes of the view.
    [[nodiscard]] AddressRange under(Bytes front) const {
      return {run.begin, front <= offset ? Bytes{0} : std::min(run.size, front - offset)};
    }
  };

  /// `parts` are free. Maps their chunks in order, all or nothing.
  StitchedView(const std::shared_ptr<Device>& device, std::vector<Part> parts_in_order, BlockGroup& group,
               StreamId stream);

  [[nodiscard]] Bytes mapped() const override { return range.size; }
  /// Whether something under the first `front` bytes is in use.
  [[nodiscard]] bool is_shadowed(Bytes front);
  [[nodiscard]] bool is_in_use() const { return block.state == BlockState::live || block.state == BlockState::pending; }
  [[nodiscard]] bool touches(const PrimitiveSegment& segment, AddressRange run) const;

  /// Unmaps what is behind its first `front` bytes, all of that, or nothing and throws. Its addresses stay reserved.
  /// pre: no work is left that uses it.
  void shorten(Bytes front);

  std::vector<Part> parts;
  StitchedRange memory;
  Block block;  ///< what is handed out: the whole view or its front

  // Of the cache: the place among those that are not in use, in the order of their last use.
  StitchedView* older = nullptr;
  StitchedView* newer = nullptr;

 private:
  [[nodiscard]] static bool is_free(const Part& part, Bytes front);

  std::size_t obstacle_ = 0;  // the part that was in use when it was last asked: it is asked first
};

}  // namespace memlake
