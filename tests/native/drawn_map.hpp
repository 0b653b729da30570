#pragma once

// DrawnMap: a map of a lake that a test draws as text, one character per cell, from low to high addresses:
// "_" addresses without memory, "[...]" one chunk, in it "." free and "x" live cells. No driver is needed.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policies/lake/lake_planner.hpp"

namespace memlake::test {

class DrawnMap {
 public:
  static constexpr Bytes kGranule = MiB * 2;

  /// `cell`: the size of a character. Brackets stand at multiples of the granule.
  explicit DrawnMap(std::string_view drawing, Bytes cell = kGranule) : map(kGranule), cell_(cell) {
    std::string cells;
    for (const char sign : drawing)
      if (sign != '[' && sign != ']') cells.push_back(sign);
    lane = &map.lanes().of(0, false);
    range = &map.add_range(*lane, {{GiB.count * 1024}, cell * cells.size()}, nullptr);
    add_chunks(drawing);
    LakeBlock* block = range->lowest;
    for (std::size_t begin = 0; begin < cells.size();) {
      std::size_t end = begin + 1;
      // Free neighbours are one run. Each live cell is a block of its own.
      while (end < cells.size() && cells[end] == cells[begin] && cells[begin] != 'x') ++end;
      LakeBlock* rest = end < cells.size() ? map.cut(block, cell * (end - begin)) : nullptr;
      block->state = cells[begin] == '_'   ? BlockState::unmapped
                     : cells[begin] == '.' ? BlockState::free
                                           : BlockState::live;
      if (block->state == BlockState::free) map.index(block);
      if (block->state == BlockState::live) map.count_used(block->size);
      block = rest;
      begin = end;
    }
  }

  [[nodiscard]] Wish wish(Bytes size, Bytes room = {0}) const { return {*lane, size, room}; }

  LakeMap map;
  Lane* lane;
  Range* range;

 private:
  void add_chunks(std::string_view drawing) {
    Address at = range->range.begin;
    Address begin = at;
    for (const char sign : drawing) {
      if (sign == '[') begin = at;
      if (sign == ']') {
        auto chunk = std::make_unique<LakeChunk>();
        chunk->size = at - begin;
        map.settle(map.add_chunk(std::move(chunk)), *range, begin, std::nullopt);
      }
      if (sign != '[' && sign != ']') at = at + cell_;
    }
  }

  Bytes cell_;
};

/// A plan in granules: "run 2, move 4 3, new 8, borrow 1, odd 2".
inline std::string drawn(const std::optional<Plan>& plan) {
  if (!plan) return "none";
  std::string text;
  const auto add = [&](const char* word, const std::vector<Bytes>& sizes) {
    if (sizes.empty()) return;
    text += (text.empty() ? "" : ", ") + std::string(word);
    for (const Bytes size : sizes) text += " " + std::to_string(size.count / DrawnMap::kGranule.count);
  };
  const auto sizes_of = [](const std::vector<Part>& parts) {
    std::vector<Bytes> sizes;
    for (const Part& part : parts) sizes.push_back(part.size());
    return sizes;
  };
  if (plan->place.run != nullptr) add("run", {plan->place.run->size});
  add("move", sizes_of(plan->moved));
  add("new", plan->fresh);
  add("host", plan->spilled);
  add("borrow", sizes_of(plan->borrowed));
  if (plan->odd) add("odd", {plan->odd->size()});
  return text;
}

}  // namespace memlake::test
