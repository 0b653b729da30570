// Checks the invariants of a SegmentSpace, from the blocks themselves.

#include "policies/address_check.hpp"
#include "policies/segments/block_check.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {

void SegmentSpace::check(InvariantReport& report) const {
  std::vector<const SegmentMemory*> segments;
  std::vector<AddressRange> ranges;
  Bytes mapped{0};
  for (const auto& segment : segments_) {
    segments.push_back(segment.get());
    ranges.push_back(segment->range);
    mapped = mapped + segment->mapped();
  }
  check_blocks(blocks_, segments, report);
  check_apart(std::move(ranges), report);
  // I4: every chunk is behind a page of a segment, once.
  if (mapped != ledger_.held())
    report.add("I4: segments have ", mapped.count, " bytes of memory, but ", ledger_.held().count, " are held");
}

}  // namespace memlake
