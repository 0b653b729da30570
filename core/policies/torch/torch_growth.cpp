// The part of TorchRules that computes how new memory could have served a refused request.

#include <algorithm>

#include "policies/torch/torch_rules.hpp"
#include "policies/torch/torch_sizes.hpp"

namespace memlake {

namespace {

/// The place of the stream's expandable segments where `new_memory` makes the largest piece.
Growth best_place(const BlockGroup& group, StreamId stream, Bytes new_memory) {
  Growth best{.in_one_range = new_memory};  // at new addresses
  for (auto at = group.unmapped.lower_bound({stream, 0}); at != group.unmapped.end() && at->first.first == stream;
       ++at) {
    const Block* block = at->second;
    if (is_allocatable(block->previous)) block = block->previous;
    Bytes free{0};
    Bytes all{0};
    for (; is_allocatable(block); block = block->next) {
      all = all + block->size;
      if (block->state == BlockState::free) free = free + block->size;
    }
    const Bytes piece = std::min(all, free + new_memory);
    if (piece > best.in_one_range) best = {.grows_from = free, .in_one_range = piece};
  }
  return best;
}

/// The largest request for which a new segment takes at most `room`, if one of `refused` bytes is too large.
Bytes largest_request(Bytes room, Bytes refused) {
  if (refused >= torch::kMinLarge && room >= torch::kMinLarge) return room.rounded_down(torch::kLargeRounding);
  // Requests between the small ones and those with a segment of their own size need a segment of 20 MiB.
  return !torch::is_small(refused) && room >= torch::kSmallSegment ? torch::kLargestSmall : Bytes{0};
}

}  // namespace

Growth TorchRules::growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const {
  const Bytes rounded = attempt.rounded;
  const bool is_small = torch::is_small(rounded);
  const bool has_own_segment = rounded >= torch::kMinLarge;
  const Bytes segment = torch::segment_size(rounded, options_);
  Bytes page = is_small ? torch::kSmallSegment : options_.large_segment_size;
  if (!options_.is_expandable) {
    if (has_own_segment) page = torch::kLargeRounding;
    return {.page = page,
            .in_one_range = largest_request(std::min(view.room(), device_free), rounded),
            .counted = segment,
            .from_driver = segment};
  }
  const BlockGroup& group = is_small ? view.blocks.small : view.blocks.large;
  Growth growth = best_place(group, attempt.request.stream, device_free.rounded_down(page));
  const Bytes missing = rounded.excess_over(growth.grows_from);
  const Bytes from_driver = missing.rounded_up(page);
  // The limit is compared with a whole segment, also where only pages are added.
  const bool is_within_limit = !has_own_segment && segment <= view.room();
  const Bytes most =
      is_within_limit ? view.room().rounded_down(torch::kLargeRounding) : largest_request(view.room(), rounded);
  if (growth.in_one_range > most) growth = {.in_one_range = most};
  growth.page = page;
  growth.counted = segment;
  growth.from_driver = from_driver;
  return growth;
}

}  // namespace memlake
