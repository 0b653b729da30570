#pragma once

// LakeSabotage: opens a lake to tests that break it.

#include <memory>
#include <optional>
#include <utility>

#include "guards.hpp"
#include "policies/lake/lake_space.hpp"
#include "sabotage_ledger.hpp"

namespace memlake::test {

struct LakeSabotage {
  LakeSpace& space;

  [[nodiscard]] Lane& lane(StreamId stream, bool is_small) const { return space.map_.lanes().of(stream, is_small); }
  [[nodiscard]] std::vector<std::unique_ptr<LakeChunk>>& chunks() const { return space.map_.chunks_; }
  [[nodiscard]] Bytes& held() const { return LedgerSabotage{space.ledger_}.held(); }
  [[nodiscard]] Bytes& held_on_host() const { return LedgerSabotage{space.ledger_}.spilled(); }
  [[nodiscard]] Bytes& held_at_home() const { return LedgerSabotage{space.ledger_}.held_on(0); }
  [[nodiscard]] Bytes& used() const { return space.map_.used_; }

  [[nodiscard]] Mend unindex(LakeBlock* block) const {
    space.map_.unindex(block);
    return [map = &space.map_, block] { map->index(block); };
  }
  [[nodiscard]] Mend index_again(LakeBlock* block) const {
    space.map_.index(block);
    return [map = &space.map_, block] { map->unindex(block); };
  }
  /// A chunk's home is somewhere else.
  [[nodiscard]] static Mend unmap(LakeChunk& chunk) {
    const auto home = std::make_shared<Mapping>(std::move(*chunk.home));
    chunk.home.reset();
    return [&chunk, home] { chunk.home.emplace(std::move(*home)); };
  }
  /// The range finds another chunk, or none, where a chunk is at home.
  [[nodiscard]] static Mend misplace(LakeChunk& chunk, LakeChunk* found) {
    chunk.range->set_chunk(chunk.at(), found);
    return [&chunk, range = chunk.range] { range->set_chunk(chunk.at(), &chunk); };
  }
};

}  // namespace memlake::test
