// The part of LakeSpace that uses the memory of the host when the devices have no room. Free memory there is kept apart
// from that of the devices, so that it is handed out last: one index per lane, and runs that do not merge.

#include <algorithm>

#include "base/host_memory.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/lake/lake_tuning.hpp"

namespace memlake {

std::unique_ptr<LakeChunk> LakeSpace::create_on_host(Bytes size) const {
  auto chunk = std::make_unique<LakeChunk>();
  chunk->memory = std::make_shared<PhysicalChunk>(PhysicalChunk::create_on_host(device_, size, host_));
  chunk->size = size;
  chunk->device = devices_.size();
  return chunk;
}

void LakeSpace::offer_in_parts(LakeBlock* block) {
  const Range& range = static_cast<const Range&>(*block->memory);
  while (block != nullptr) {
    const LakeChunk* chunk = range.chunk_at(block->address);
    const bool is_spilled = chunk->is_spilled;
    Address end = chunk->at().end();
    while (end < block->end() && range.chunk_at(end)->is_spilled == is_spilled) end = range.chunk_at(end)->at().end();
    LakeBlock* rest = end < block->end() ? cut(block, end - block->address) : nullptr;
    if (rest != nullptr) rest->state = BlockState::dead;  // in no index yet, so nobody may merge with it
    block->is_spilled = is_spilled;
    index(merge(block));
    block = rest;
    if (block != nullptr) block->state = BlockState::free;
  }
}

LakeBlock* LakeSpace::find_spilled(Bytes size, StreamId stream) const {
  LakeBlock* best = nullptr;
  const auto better = [&](const Lane& lane) {
    auto* run = static_cast<LakeBlock*>(lane.spilled.best_fit(size));
    if (run != nullptr && (best == nullptr || run->size < best->size)) best = run;
  };
  for (const bool is_small : {size <= kLargestSmall, size > kLargestSmall})
    if (const Lane* lane = known_lane(stream, is_small); lane != nullptr && best == nullptr) better(*lane);
  if (best == nullptr) for_each_lane(better);
  return best;
}

std::vector<Part> LakeSpace::spilled_chunks() const {
  std::vector<Part> parts;
  for_each_lane([&](const Lane& lane) {
    for (Block* run = lane.spilled.last(); run != nullptr && run->size >= granule_; run = lane.spilled.before(run))
      add_whole_chunks(static_cast<LakeBlock*>(run), parts);
  });
  return parts;
}

/// All that the devices have free in whole chunks, then free chunks of the host, and new ones for the rest.
LakeSpace::Plan LakeSpace::plan_spill(Lane& lane, Bytes size) {
  const Place place = place_for(lane, size);
  Bytes missing = up(size - (place.run == nullptr ? Bytes{0} : place.run->size));
  Plan plan{.place = place, .moved = {}};
  // The largest first, so that the last one is the least too large.
  const auto move = [&](std::vector<Part> wholes) {
    std::ranges::stable_sort(wholes, std::greater<>{}, [](const Part& part) { return part.chunk->size; });
    for (const Part& whole : wholes) {
      if (missing.count == 0) return;
      plan.moved.push_back(whole);
      missing = missing.excess_over(whole.chunk->size);
    }
  };
  move(whole_chunks(place.run));
  const Bytes fresh = std::min(missing, room());
  plan.fresh = chunk_sizes(fresh, size);
  missing = missing - fresh;
  move(spilled_chunks());
  plan.spilled = chunk_sizes(missing, size);
  return plan;
}

Block* LakeSpace::spill(Attempt& attempt, Lane& lane) {
  const Bytes size = attempt.rounded;
  // What was spilled before and is large enough costs no driver call.
  if (LakeBlock* run = find_spilled(size, attempt.request.stream)) {
    let_wait(attempt.request.stream, *run);
    return take_high(run, size);
  }
  if (size > budget() + host_memory()) {  // no address need be looked for
    attempt.tried.push_back({Tried::What::spill, true});
    return nullptr;
  }
  // A device that has less than it should have makes the budget smaller; then the host has to give more.
  for (std::size_t tries = 0; tries <= homes_.size(); ++tries) {
    const Bytes known = budget();
    Block* block = try_to(attempt, Tried::What::spill, [&]() -> Block* {
      Plan plan = plan_spill(lane, size);
      return carry_out(plan, size);
    });
    reap();
    if (block != nullptr) return block;
    if (budget() == known) break;  // the host itself has none
  }
  return nullptr;
}

/// The block of a plan with memory on the host: the high end of what is there now.
Block* LakeSpace::take_mixed(const Plan& plan, LakeBlock* block, Bytes size) {
  if (plan.place.run != nullptr) {
    unindex(plan.place.run);
    swallow_above(block);
  }
  if (block->size > size) {
    LakeBlock* low = block;
    block = cut(low, low->size - size);
    block->state = BlockState::live;  // before what is left over looks for neighbours to merge with
    offer(low);
  }
  used_ = used_ + block->size;
  return block;
}

}  // namespace memlake
