#include "policies/lake/lake_map.hpp"

#include <algorithm>

namespace memlake {

Range& LakeMap::add_range(Lane& lane, AddressRange addresses, std::shared_ptr<Reservation> reserved) {
  auto range = std::make_unique<Range>(lane, addresses, std::move(reserved), granule_);
  range->serial = ranges_made_++;
  range->lowest = range->highest = make_block(*range, addresses, BlockState::unmapped);
  lane.ranges.push_back(std::move(range));
  watch.segment_made(lane.is_small());
  return *lane.ranges.back();
}

void LakeMap::drop_bare_ranges() {
  lanes_.for_each([this](Lane& lane) {
    std::erase_if(lane.ranges, [this](const std::unique_ptr<Range>& range) {
      const bool is_bare = range->lowest == range->highest && range->lowest->state == BlockState::unmapped;
      if (is_bare) {
        destroy(range->lowest);
        watch.segment_gone(range->lane.is_small());
      }
      return is_bare;
    });
  });
}

LakeChunk& LakeMap::add_chunk(std::unique_ptr<LakeChunk> chunk) {
  largest_chunk_ = std::max(largest_chunk_, chunk->size);
  spilled_chunks_ += chunk->is_spilled ? 1U : 0U;
  chunk->place = chunks_.size();
  chunk->is_counted = !chunk->is_spilled;
  if (chunk->is_counted) watch.holds_more(chunk->size, chunk->is_small);
  chunks_.push_back(std::move(chunk));
  return *chunks_.back();
}

void LakeMap::drop_chunk(LakeChunk& chunk) {
  spilled_chunks_ -= chunk.is_spilled ? 1U : 0U;
  if (chunk.is_counted) watch.holds_less(chunk.size, chunk.is_small);
  const std::size_t place = chunk.place;
  std::swap(chunks_[place], chunks_.back());
  chunks_[place]->place = place;
  chunks_.pop_back();
}

void LakeMap::settle(LakeChunk& chunk, Range& range, Address address, std::optional<Mapping> mapping) {
  chunk.home.reset();
  if (mapping) chunk.home.emplace(*std::move(mapping));
  chunk.address = address;
  chunk.range = &range;
  if (const bool is_small = range.lane.is_small(); is_small != chunk.is_small) {
    if (chunk.is_counted) {
      watch.holds_less(chunk.size, chunk.is_small);
      watch.holds_more(chunk.size, is_small);
    }
    chunk.is_small = is_small;
  }
  chunk.since = next_settling();
  range.home = range.home + chunk.size;
  range.set_chunk(chunk.at(), &chunk);
}

LakeBlock* LakeMap::unsettle(const Part& whole) {
  LakeChunk& chunk = *whole.chunk;
  LakeBlock* old = isolate(whole.run, chunk.at());
  chunk.range->set_chunk(chunk.at(), nullptr);
  chunk.range->home = chunk.range->home - chunk.size;
  chunk.range = nullptr;
  old->state = BlockState::dead;
  old->is_spilled = false;
  return old;
}

LakeBlock* LakeMap::make_block(Range& range, AddressRange covered, BlockState state) {
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

void LakeMap::destroy(LakeBlock* block) {
  block->memory = nullptr;
  unused_.push_back(block);
}

LakeBlock* LakeMap::cut(LakeBlock* block, Bytes size) {
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

void LakeMap::index(LakeBlock* block) {
  if (block->state != BlockState::free) return;
  Lane& lane = static_cast<Range&>(*block->memory).lane;
  (block->is_spilled ? lane.spilled : lane.free).insert(block);
}

void LakeMap::unindex(LakeBlock* block) {
  if (block->state != BlockState::free) return;
  Lane& lane = static_cast<Range&>(*block->memory).lane;
  (block->is_spilled ? lane.spilled : lane.free).erase(block);
}

void LakeMap::swallow_above(LakeBlock* block) {
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

LakeBlock* LakeMap::merge(LakeBlock* block) {
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

void LakeMap::offer_in_parts(LakeBlock* block) {
  const Range& range = static_cast<const Range&>(*block->memory);
  while (block != nullptr) {
    const LakeChunk* chunk = range.chunk_at(block->address);
    const bool is_spilled = chunk->is_spilled;
    Address end = chunk->at().end();
    while (end < block->end() && range.chunk_at(end)->is_spilled == is_spilled) end = range.chunk_at(end)->at().end();
    LakeBlock* rest = end < block->end() ? cut(block, end - block->address) : nullptr;
    if (rest != nullptr) rest->state = BlockState::dead;  // in no index yet, so no neighbour may merge with it
    block->is_spilled = is_spilled;
    index(merge(block));
    block = rest;
    if (block != nullptr) block->state = BlockState::free;
  }
}

LakeBlock* LakeMap::isolate(LakeBlock* block, AddressRange part) {
  unindex(block);
  LakeBlock* middle = block;
  if (part.begin > block->address) {
    middle = cut(block, part.begin - block->address);
    index(block);
  }
  if (part.end() < middle->end()) index(cut(middle, part.size));
  return middle;
}

LakeBlock* LakeMap::take_high(LakeBlock* block, Bytes size) {
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
