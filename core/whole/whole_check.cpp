// Verifies what must always hold of whole blocks, from their chunks.

#include <algorithm>
#include <set>

#include "space/block_check.hpp"
#include "whole/whole_space.hpp"

namespace memlake {

void WholeSpace::check(Broken& broken) const {
  std::set<const WholeRange*> offered;
  for (const auto& [key, ranges] : free_)
    for (const WholeRange* range : ranges) {
      if (!offered.insert(range).second) broken.report("I6: ", place(range->block), " is offered twice");
      if (key != std::pair{range->block.stream, range->block.size.count})
        broken.report("I6: ", place(range->block), " is offered to another stream, or as another size");
    }
  std::set<const PhysicalChunk*> chunks;
  std::vector<AddressRange> covered;
  std::vector<Bytes> held_on(devices_.size());
  Bytes held{0};
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const WholeRange& range = *ranges_[i];
    const Block& block = range.block;
    covered.push_back(range.range);
    if (range.place != i) broken.report("I5: ", place(block), " is not where the pool looks for it");
    if (AddressRange{block.address, block.size} != range.range || block.memory != &range || !block.is_whole)
      broken.report("I1: ", place(block), " does not cover its range");
    Address next = range.range.begin;
    for (const WholeRange::Part& part : range.parts) {
      if (!part.mapping.is_open() || part.mapping.range().begin != next)
        broken.report("I1: ", place(block), " has a gap between two chunks");
      next = part.mapping.range().end();
      if (part.size() != part.mapping.chunk()->size())
        broken.report("I3: ", place(block), " does not own a chunk whole");
      if (!chunks.insert(part.mapping.chunk().get()).second)
        broken.report("I3: ", place(block), " has a chunk that another block has, too");
      held_on[part.device] = held_on[part.device] + part.size();
      held = held + part.size();
    }
    if (next != range.range.end()) broken.report("I1: ", place(block), " ends with a gap");
    if ((block.state == BlockState::free) != offered.contains(&range))
      broken.report("I6: ", place(block),
                    block.state == BlockState::free ? " is free but not offered" : " is not free");
    if (range.is_exported && (block.state == BlockState::free || block.stream != kNoStream))
      broken.report("I3: ", place(block), " was exported, but may be used again");
  }
  check_apart(std::move(covered), broken);
  if (held != held_.now || held_on != held_on_)
    broken.report("I4: whole blocks have ", held.count, " bytes of memory, but ", held_.now.count, " are held");
}

}  // namespace memlake
