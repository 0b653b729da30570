#pragma once

// LakeLanes: the lanes of a lake, two for each stream: one for small blocks and one for large ones.

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "blocks/block_map.hpp"
#include "policies/lake/range.hpp"

namespace memlake {

class LakeLanes {
 public:
  LakeLanes() = default;
  LakeLanes(const LakeLanes&) = delete;
  LakeLanes& operator=(const LakeLanes&) = delete;

  /// The lane of the stream, made on first use.
  Lane& of(StreamId stream, bool is_small);
  /// Null if the stream has no such lane.
  [[nodiscard]] Lane* known(StreamId stream, bool is_small) const {
    return stream < lanes_.size() ? lanes_[stream][is_small ? 1 : 0].get() : nullptr;
  }
  /// One more than the largest number of a stream that has a lane.
  [[nodiscard]] std::size_t stream_count() const { return lanes_.size(); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& lanes : lanes_)
      for (const auto& lane : lanes)
        if (lane != nullptr) visit(*lane);
  }
  template <class Visit>
  void for_each_range(Visit&& visit) const {
    for_each([&](const Lane& lane) {
      for (const auto& range : lane.ranges) visit(*range);
    });
  }
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    for_each_range([&](const Range& range) {
      for (LakeBlock* block = range.lowest; block != nullptr; block = block->above()) visit(*block);
    });
  }
  [[nodiscard]] std::size_t range_count() const;
  [[nodiscard]] Bytes reserved_addresses() const;
  /// Gives back the memory of the indices that have no block.
  void shrink();

 private:
  BlockGroup small_{true};  // only names: free blocks are in the lanes
  BlockGroup large_{false};
  std::vector<std::array<std::unique_ptr<Lane>, 2>> lanes_;  // by stream; large and small
};

}  // namespace memlake
