// The part of SegmentSpace that computes the memory that it could have provided for a refused request.

#include <algorithm>

#include "base/bytes_text.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {

namespace {

Bytes largest_in(const BlockGroup& group, StreamId stream) {
  const FreeIndex* index = group.index_of(stream);
  return index == nullptr || index->is_empty() ? Bytes{0} : index->last()->size;
}

/// The whole movable pieces in a free block.
Bytes movable_in(const Block& block) {
  const std::uint64_t unit = kMovable.count;
  const std::uint64_t begin = (block.address.value + unit - 1) / unit * unit;
  const std::uint64_t end = block.end().value / unit * unit;
  return {end > begin ? end - begin : 0};
}

}  // namespace

std::string SegmentSpace::advice_for(const Attempt& attempt, Bytes room) const {
  const Bytes rounded = attempt.rounded;
  if (const Bytes largest = largest_free(); largest >= rounded) {
    const bool is_of_stream = largest_free(attempt.request.stream) >= rounded;
    return "a free piece of " + to_text(largest) + " is large enough, but it is kept for " +
           (is_of_stream ? "small requests" : "another stream") + ", and the policy " + policy_name() +
           " does not share it; the policy lake does";
  }
  Bytes movable = room;
  blocks_.for_each([&](const Block& block) {
    if (block.state == BlockState::free) movable = movable + movable_in(block);
  });
  return "there is enough memory, but not in one piece where this request may take it; " +
         advice_about_moving(rounded, movable);
}

Outlook SegmentSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  const BlockGroup& group = rules_->is_small(attempt.rounded) ? blocks_.small : blocks_.large;
  const StreamId stream = attempt.request.stream;
  Outlook outlook;
  outlook.room = room_within(device_free);
  const Growth growth = rules_->growth(attempt, view(), device_free);
  outlook.page = growth.page;
  outlook.need = need_of(growth.counted, growth.counted, growth.from_driver);
  outlook.grows_from = growth.grows_from;
  // A small piece among the large blocks serves no request: one of its size would look among the small blocks.
  const Bytes piece = largest_in(group, stream);
  const bool is_usable = rules_->is_small(piece) == group.is_small;
  outlook.in_one_range = std::max(is_usable ? piece : Bytes{0}, growth.in_one_range);
  const FreeIndex* index = group.index_of(stream);
  for (const Block* block = index == nullptr ? nullptr : index->first(); block != nullptr; block = index->after(block))
    outlook.free_and_usable = outlook.free_and_usable + block->size;
  outlook.is_there_now = index != nullptr && index->best_fit(attempt.rounded) != nullptr;
  outlook.advice = advice_for(attempt, outlook.room);
  return outlook;
}

}  // namespace memlake
