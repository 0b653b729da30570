#pragma once

// SegmentSabotage: opens a space of segments to tests that break it.

#include "guards.hpp"
#include "policies/segments/segment_space.hpp"
#include "sabotage_ledger.hpp"

namespace memlake::test {

struct SegmentSabotage {
  SegmentSpace& space;

  [[nodiscard]] SegmentMemory& segment(std::size_t place) const { return *space.segments_.at(place); }
  [[nodiscard]] Bytes& held() const { return LedgerSabotage{space.ledger_}.held(); }

  [[nodiscard]] Mend unindex(Block* block) const {
    space.blocks_.unindex(block);
    return [space = &space, block] { space->blocks_.index(block); };
  }
  [[nodiscard]] Mend index_again(Block* block) const {
    space.blocks_.index(block);
    return [space = &space, block] { space->blocks_.unindex(block); };
  }
};

}  // namespace memlake::test
