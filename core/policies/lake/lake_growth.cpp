// The part of LakeSpace that grows outside the lock: making memory is by far the longest thing that a pool does, and
// nobody who is served from what is there need wait for it. Decided with the lock, made without it, settled with it.

#include <algorithm>

#include "policies/lake/lake_space.hpp"
#include "vmm/access.hpp"

namespace memlake {

LakeBlock* LakeSpace::claim(const Place& place, Bytes size) {
  LakeBlock* claimed = place.hole;
  if (claimed->size > size) claimed = cut(claimed, claimed->size - size);
  claimed->state = BlockState::dead;
  if (place.run != nullptr) {
    unindex(place.run);
    place.run->state = BlockState::claimed;
  }
  return claimed;
}

void LakeSpace::unclaim(LakeBlock* claimed, LakeBlock* run) {
  claimed->state = BlockState::unmapped;
  merge(claimed);
  if (run == nullptr) return;
  run->state = BlockState::free;
  index(merge(run));
}

Block* LakeSpace::grow_outside(const Place& place, const std::vector<Bytes>& sizes, Bytes size) {
  Range& range = *place.range;
  const Address top = place.hole->end();
  const std::vector<Making> makings = assign(sizes, range.lane.stream);
  Bytes total{0};
  for (const Making& making : makings) total = total + making.size;

  LakeBlock* claimed = claim(place, total);
  for (const Making& making : makings) ledger_.promise(making.size, making.on);
  const auto withdraw = [&] {
    for (const Making& making : makings) ledger_.withdraw(making.size, making.on);
  };

  std::size_t failed_on = homes_.size();
  Made made;
  try {
    const std::vector<std::shared_ptr<Device>> users(accessors().begin(), accessors().end());
    const UnlockedScope unlocked(unlocker_);
    made = make(makings, users, range, top, failed_on);
  } catch (...) {
    withdraw();
    if (failed_on < homes_.size()) note_shortage(failed_on);
    unclaim(claimed, place.run);
    throw;
  }
  withdraw();

  Address at = top;
  for (std::size_t i = 0; i < made.chunks.size(); ++i) {
    at = {at.value - made.chunks[i]->size.count};
    settle_in(*made.chunks[i], range, at, std::move(made.mappings[i]));
  }
  keep(made.chunks);
  claimed->state = BlockState::free;
  claimed->is_spilled = false;
  if (place.run != nullptr) {
    place.run->state = BlockState::free;
    swallow_above(claimed);
  }
  LakeBlock* run = merge(claimed);
  index(run);
  return take_high(run, size);
}

LakeSpace::Made LakeSpace::make(const std::vector<Making>& makings, const std::vector<std::shared_ptr<Device>>& users,
                                Range& range, Address top, std::size_t& failed_on) const {
  Made made;
  for (const Making& making : makings) {
    try {
      made.chunks.push_back(create_one(making));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) failed_on = making.on;
      throw;
    }
  }
  // As in a plan that moves: memory of the first device at the lowest addresses.
  std::ranges::stable_sort(made.chunks, std::greater<>{}, [](const auto& chunk) { return chunk->device; });
  Address at = top;
  for (const auto& chunk : made.chunks) {
    at = {at.value - chunk->size.count};
    made.mappings.emplace_back(range.reservation, at - range.range.begin, chunk->memory, chunk->size);
  }
  set_access({at, top - at}, users, options_.location == Location::device ? Bytes{0} : top - at);
  return made;
}

}  // namespace memlake
