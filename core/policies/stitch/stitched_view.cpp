#include "policies/stitch/stitched_view.hpp"

#include <algorithm>
#include <utility>

namespace memlake {

namespace {

StitchedRange map_chunks(const std::shared_ptr<Device>& device, const std::vector<StitchedView::Part>& parts) {
  std::vector<std::shared_ptr<PhysicalChunk>> chunks;
  for (const StitchedView::Part& part : parts)
    for (Address at = part.run.begin; at < part.run.end(); at = at + part.segment->page)
      chunks.push_back(part.segment->chunk_at(at));
  return stitch(device, chunks, {&device, 1});
}

}  // namespace

StitchedView::StitchedView(const std::shared_ptr<Device>& device, std::vector<Part> parts_in_order, BlockGroup& group,
                           StreamId stream)
    : SegmentMemory({}, {0}), parts(std::move(parts_in_order)), memory(map_chunks(device, parts)) {
  range = memory.reservation->range();
  block = block_over(*this, group, stream);
}

bool StitchedView::is_free(const Part& part, Bytes front) {
  // Free neighbours are merged (I2), so a free run lies in one block.
  const AddressRange run = part.under(front);
  const Block* owner = part.segment->block_at(run.begin);
  return owner->state == BlockState::free && owner->end() >= run.end();
}

bool StitchedView::is_shadowed(Bytes front) {
  if (parts[obstacle_].offset < front && !is_free(parts[obstacle_], front)) return true;
  for (std::size_t i = 0; i < parts.size() && parts[i].offset < front; ++i) {
    if (is_free(parts[i], front)) continue;
    obstacle_ = i;
    return true;
  }
  return false;
}

bool StitchedView::touches(const PrimitiveSegment& segment, AddressRange run) const {
  return std::ranges::any_of(parts,
                             [&](const Part& part) { return part.segment == &segment && part.run.overlaps(run); });
}

void StitchedView::shorten(Bytes front) {
  const std::size_t kept = memory.mappings.size() * front.count / range.size.count;
  std::vector<Mapping*> run;
  for (std::size_t i = kept; i < memory.mappings.size(); ++i) run.push_back(&memory.mappings[i]);
  Mapping::close_run(run);
  while (memory.mappings.size() > kept) memory.mappings.pop_back();
  std::erase_if(parts, [&](const Part& part) { return part.offset >= front; });
  for (Part& part : parts) part.run = part.under(front);
  range.size = front;
  obstacle_ = 0;
}

}  // namespace memlake
