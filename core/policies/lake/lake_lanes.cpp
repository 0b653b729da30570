#include "policies/lake/lake_lanes.hpp"

namespace memlake {

Lane& LakeLanes::of(StreamId stream, bool is_small) {
  if (lanes_.size() <= stream) lanes_.resize(std::size_t{stream} + 1);
  auto& lane = lanes_[stream][is_small ? 1 : 0];
  if (lane == nullptr) lane = std::make_unique<Lane>(Lane{.stream = stream, .group = is_small ? small_ : large_});
  return *lane;
}

std::size_t LakeLanes::range_count() const {
  std::size_t count = 0;
  for_each([&](const Lane& lane) { count += lane.ranges.size(); });
  return count;
}

Bytes LakeLanes::reserved_addresses() const {
  Bytes sum{0};
  for_each_range([&](const Range& range) { sum = sum + range.range.size; });
  return sum;
}

void LakeLanes::shrink() {
  for_each([](Lane& lane) {
    lane.free.shrink();
    lane.spilled.shrink();
  });
}

}  // namespace memlake
