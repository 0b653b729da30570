// Verifies what must always hold of segments and their blocks, from the blocks themselves.

#include "space/block_check.hpp"
#include "space/segment_space.hpp"

namespace memlake {

void SegmentSpace::check(Broken& broken) const {
  std::vector<const SegmentMemory*> segments;
  std::vector<AddressRange> ranges;
  Bytes mapped{0};
  for (const auto& segment : segments_) {
    segments.push_back(segment.get());
    ranges.push_back(segment->range);
    mapped = mapped + segment->mapped();
  }
  check_blocks(blocks_, segments, broken);
  check_apart(std::move(ranges), broken);
  // I4: every chunk is behind a page of a segment, once.
  if (mapped != held_.now)
    broken.report("I4: segments have ", mapped.count, " bytes of memory, but ", held_.now.count, " are held");
}

}  // namespace memlake
