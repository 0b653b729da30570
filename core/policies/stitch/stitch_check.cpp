// Checks the invariants of primitive blocks and stitched views, from the blocks themselves.

#include <algorithm>
#include <set>

#include "policies/address_check.hpp"
#include "policies/segments/block_check.hpp"
#include "policies/stitch/stitch_space.hpp"

namespace memlake {

namespace {

/// I1 and I5 of one view: what it is made of is there. The other checks of a view follow its parts.
void check_parts(const StitchedView& view, const std::vector<const SegmentMemory*>& segments, InvariantReport& report) {
  Bytes size{0};
  std::size_t chunks = 0;
  for (const StitchedView::Part& part : view.parts) {
    if (std::ranges::find(segments, part.segment) == segments.end()) {
      report.add("I5: ", place(view.block), " is stitched over a segment that the pool does not have");
      return;
    }
    if (std::ranges::count(part.segment->views, &view) != 1)
      report.add("I5: ", place(view.block), " is stitched, but a segment under it does not know");
    size = size + part.run.size;
    chunks += part.run.size.rounded_up(part.segment->page).count / part.segment->page.count;
  }
  if (size != view.range.size || chunks != view.memory.mappings.size() || view.block.size > size ||
      view.block.address != view.range.begin)
    report.add("I1: ", place(view.block), " is not as large as its parts");
}

/// I3 and I4 of one view; `lent` collects the blocks that it uses. pre: check_parts() found nothing.
void check_view(const StitchedView& view, std::set<const Block*>& lent, InvariantReport& report) {
  auto mapping = view.memory.mappings.begin();
  for (const StitchedView::Part& part : view.parts) {
    if (!part.segment->range.contains(part.run) || !part.segment->is_consistent(part.run, true)) {
      report.add("I4: ", place(view.block), " is stitched over memory that was given back");
      return;
    }
    for (Address at = part.run.begin; at < part.run.end(); at = at + part.segment->page)
      if ((mapping++)->chunk() != part.segment->chunk_at(at))
        report.add("I4: ", place(view.block), " shows another chunk than its part has");
    const Block* owner = part.segment->find_block_at(part.run.begin);
    if (owner == nullptr || !AddressRange{owner->address, owner->size}.contains(part.run.begin)) {
      report.add("I1: ", place(view.block), " has a part in which its segment finds no block");
      return;
    }
    if (!view.is_in_use()) continue;
    const AddressRange used = part.under(view.block.size);
    if (used.size.count == 0) continue;
    if (owner->state != BlockState::lent || AddressRange{owner->address, owner->size} != used)
      report.add("I3: ", place(view.block), " is in use, but a part of it is not lent to it");
    if (!lent.insert(owner).second) report.add("I3: ", place(*owner), " is lent to two views");
  }
}

}  // namespace

void StitchSpace::check(InvariantReport& report) const {
  small_.check(report);
  std::vector<const SegmentMemory*> segments;
  std::vector<AddressRange> ranges;
  Bytes mapped = small_.ledger().held();
  for (const auto& segment : blocks_.segments()) {
    segments.push_back(segment.get());
    ranges.push_back(segment->range);
    mapped = mapped + segment->mapped();
  }
  check_blocks(blocks_.map(), segments, report);
  for (const auto& segment : small_.segments()) ranges.push_back(segment->range);
  if (report.sentence) return;  // what follows trusts the segment of every block

  std::set<const Block*> lent;
  Bytes view_bytes{0};
  Bytes in_use{0};
  std::size_t idle = 0;
  for (std::size_t i = 0; i < views_.views().size(); ++i) {
    const StitchedView& view = *views_.views()[i];
    if (view.place != i) report.add("I5: a stitched view is not where the pool looks for it");
    ranges.push_back(view.range);
    view_bytes = view_bytes + view.range.size;
    if (view.is_in_use()) in_use = in_use + view.block.size;
    idle += view.is_in_use() ? 0U : 1U;
    check_parts(view, segments, report);
    if (!report.sentence) check_view(view, lent, report);
  }
  // Addresses of views, too, lie apart from all others.
  check_apart(std::move(ranges), report);

  // I3: memory that is lent is in use by exactly one view.
  blocks_.map().for_each([&](const Block& block) {
    if (PrimitiveBlocks::segment_of(block).find_block_at(block.address) != &block)
      report.add("I1: ", place(block), " is not where its segment looks for it");
    if (block.state == BlockState::lent && !lent.contains(&block))
      report.add("I3: ", place(block), " is lent, but no view uses it");
  });
  // I4: every chunk is behind a page of a primitive segment, once; views count nothing.
  if (mapped != ledger_.held())
    report.add("I4: primitive segments and small memory have ", mapped.count, " bytes, but ", ledger_.held().count,
               " are held");
  if (view_bytes != views_.bytes() || in_use != views_.counters().in_use.now || idle != views_.offered())
    report.add("I5: the counters of stitched views disagree with the views");
}

}  // namespace memlake
