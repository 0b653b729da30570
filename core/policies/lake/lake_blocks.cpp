// The part of LakeSpace that keeps blocks: cutting, joining, indexing. Knows no driver.

#include "policies/lake/lake_space.hpp"

namespace memlake {

LakeBlock* LakeSpace::make_block(Range& range, AddressRange covered, BlockState state) {
  LakeBlock* block;
  if (unused_.empty()) {
    block = &store_.emplace_back();
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  block->address = covered.begin;
  block->size = covered.size;
  block->requested = {0};
  block->group = &range.lane.group;
  block->memory = &range;
  block->previous = nullptr;
  block->next = nullptr;
  block->stream = range.lane.stream;
  block->state = state;
  block->awaited = 0;
  block->give_back = GiveBack::cached;
  block->freed_at = {};
  block->users.clear();
  block->view.reset();
  block->is_spilled = false;
  return block;
}

void LakeSpace::destroy(LakeBlock* block) {
  block->memory = nullptr;
  unused_.push_back(block);
}

LakeBlock* LakeSpace::cut(LakeBlock* block, Bytes size) {
  Range& range = static_cast<Range&>(*block->memory);
  LakeBlock* high = make_block(range, {block->address + size, block->size - size}, block->state);
  high->freed_at = block->freed_at;
  high->is_spilled = block->is_spilled;
  high->previous = block;
  high->next = block->next;
  if (high->next != nullptr) {
    high->next->previous = high;
  } else {
    range.highest = high;
  }
  block->next = high;
  block->size = size;
  return high;
}

void LakeSpace::index(LakeBlock* block) {
  if (block->state != BlockState::free) return;
  Lane& lane = static_cast<Range&>(*block->memory).lane;
  (block->is_spilled ? lane.spilled : lane.free).insert(block);
}

void LakeSpace::unindex(LakeBlock* block) {
  if (block->state != BlockState::free) return;
  Lane& lane = static_cast<Range&>(*block->memory).lane;
  (block->is_spilled ? lane.spilled : lane.free).erase(block);
}

void LakeSpace::swallow_above(LakeBlock* block) {
  LakeBlock* above = block->above();
  block->size = block->size + above->size;
  block->freed_at = block->freed_at.later(above->freed_at);
  block->next = above->next;
  if (block->next != nullptr) {
    block->next->previous = block;
  } else {
    static_cast<Range&>(*block->memory).highest = block;
  }
  destroy(above);
}

LakeBlock* LakeSpace::merge(LakeBlock* block) {
  if (block->state != BlockState::free && block->state != BlockState::unmapped) return block;
  // Memory that was spilled is handed out last, so it stays apart.
  const auto is_like_it = [&](const LakeBlock* other) {
    return other != nullptr && other->state == block->state &&
           (block->state == BlockState::unmapped || other->is_spilled == block->is_spilled);
  };
  if (LakeBlock* below = block->below(); is_like_it(below)) {
    unindex(below);
    swallow_above(below);
    block = below;
  }
  if (LakeBlock* above = block->above(); is_like_it(above)) {
    unindex(above);
    swallow_above(block);
  }
  return block;
}

LakeBlock* LakeSpace::isolate(LakeBlock* block, AddressRange part) {
  unindex(block);
  LakeBlock* middle = block;
  if (part.begin > block->address) {
    middle = cut(block, part.begin - block->address);
    index(block);
  }
  if (part.end() < middle->end()) index(cut(middle, part.size));
  return middle;
}

LakeBlock* LakeSpace::take_high(LakeBlock* block, Bytes size) {
  unindex(block);
  if (block->size > size) {
    LakeBlock* high = cut(block, block->size - size);
    index(block);
    block = high;
  }
  used_ = used_ + block->size;
  return block;
}

}  // namespace memlake
