#include "policies/segments/block_check.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "policies/segments/segments.hpp"

namespace memlake {

namespace {

/// The blocks of one segment, in address order.
using SegmentBlocks = std::vector<const Block*>;
using BlocksBySegment = std::map<const SegmentMemory*, SegmentBlocks>;

bool is_in_use(const Block& block) {
  return block.state == BlockState::live || block.state == BlockState::pending || block.state == BlockState::lent;
}

void check_tiling(const SegmentMemory& segment, const SegmentBlocks& blocks, InvariantReport& report) {
  Address next = segment.range.begin;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block* block = blocks[i];
    if (block->address != next) report.add("I1: ", place(*block), " leaves a gap or overlaps what is before it");
    if (block->size.count == 0) report.add("I1: ", place(*block), " is empty");
    if (block->previous != (i == 0 ? nullptr : blocks[i - 1]))
      report.add("I1: ", place(*block), " is not linked to the block before it");
    if (block->next != (i + 1 == blocks.size() ? nullptr : blocks[i + 1]))
      report.add("I1: ", place(*block), " is not linked to the block behind it");
    next = block->end();
  }
  if (next != segment.range.end()) report.add("I1: the last block of a segment does not reach its end");
}

void check_merging(const SegmentBlocks& blocks, InvariantReport& report) {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    const Block& left = *blocks[i - 1];
    const Block& right = *blocks[i];
    if (left.state == right.state && !is_in_use(left))
      report.add("I2: ", place(right), " is in the same state as the block before it, but they were not merged");
  }
}

void check_memory(const SegmentMemory& segment, const SegmentBlocks& blocks, InvariantReport& report) {
  if (!segment.is_expandable()) {
    for (const Block* block : blocks)
      if (block->state == BlockState::unmapped)
        report.add("I3: ", place(*block), " is unmapped in a segment of one piece");
    return;
  }
  const auto& expandable = static_cast<const ExpandableSegment&>(segment);
  for (const Block* block : blocks) {
    const bool wants_memory = block->state != BlockState::unmapped;
    if (!expandable.is_consistent({block->address, block->size}, wants_memory))
      report.add("I3: ", place(*block),
                 wants_memory ? " has a page without memory" : " is unmapped but has memory behind it");
  }
}

/// I6: a free block is offered to the stream of its segment, once, and to no other.
void check_offers(const BlockMap& map, std::size_t free_blocks, InvariantReport& report) {
  std::unordered_set<const Block*> offered;
  for (const BlockGroup* group : {&map.small, &map.large})
    for (std::size_t stream = 0; stream < group->free.size(); ++stream)
      if (group->free[stream] != nullptr)
        group->free[stream]->for_each_entry([&](const Block& block, bool is_current) {
          if (!offered.insert(&block).second) report.add("I6: ", place(block), " is offered twice");
          if (!is_current) report.add("I6: ", place(block), " is offered with another size or at another address");
          if (block.state != BlockState::free) report.add("I6: ", place(block), " is offered but not free");
          if (block.stream != stream)
            report.add("I6: ", place(block), " is offered to another stream without an event");
        });
  if (free_blocks != offered.size())
    report.add("I6: ", free_blocks, " blocks are free, but ", offered.size(), " are offered");
}

}  // namespace

void check_blocks(const BlockMap& map, const std::vector<const SegmentMemory*>& segments, InvariantReport& report) {
  BlocksBySegment by_segment;
  for (const SegmentMemory* segment : segments) by_segment[segment];
  std::size_t free_blocks = 0;
  map.for_each([&](const Block& block) {
    free_blocks += block.state == BlockState::free ? 1U : 0U;
    const auto found = by_segment.find(block.memory);
    if (found == by_segment.end()) {
      report.add("I1: ", place(block), " lies in no segment of the pool");
    } else {
      found->second.push_back(&block);
    }
  });
  if (report.sentence) return;  // what follows trusts the segment of every block
  for (auto& [segment, blocks] : by_segment) {
    std::ranges::sort(blocks, {}, [](const Block* block) { return block->address; });
    check_tiling(*segment, blocks, report);
    check_merging(blocks, report);
    check_memory(*segment, blocks, report);
    if (segment->place >= segments.size() || segments[segment->place] != segment)
      report.add("I5: a segment is not where the pool looks for it");
  }
  check_offers(map, free_blocks, report);
}

}  // namespace memlake
