#include "policies/lake/lake_grower.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace memlake {

Range& LakeGrower::add_range(Lane& lane, Bytes at_least) {
  map_.drop_bare_ranges();  // other streams may have left some; addresses are not free either
  const Bytes memory = homes_.total();
  Bytes usual{memory.count / tuning_.small_ranges};
  if (!lane.is_small()) {
    bool is_first = true;
    map_.lanes().for_each([&](const Lane& other) { is_first &= other.is_small() || other.ranges.empty(); });
    usual = is_first ? memory * tuning_.first_range : Bytes{memory.count / tuning_.later_ranges};
  }
  if (Reservation::of_process() > tuning_.generous) usual = std::min(usual, {memory.count / tuning_.lean_ranges});
  auto reservation = reserve(map_.up(at_least), map_.up(usual));
  const AddressRange addresses = reservation->range();
  return map_.add_range(lane, addresses, std::move(reservation));
}

std::shared_ptr<Reservation> LakeGrower::reserve(Bytes at_least, Bytes usual) const {
  while (usual > at_least) {
    try {
      return homes_.reserve(usual);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::address_exhaustion) throw;
      usual = map_.down({usual.count / 2});  // so many addresses are not free in one piece
    }
  }
  return homes_.reserve(at_least);
}

LakeBlock* LakeGrower::claim(const Place& place, Bytes size) {
  LakeBlock* claimed = place.hole;
  if (claimed->size > size) claimed = map_.cut(claimed, claimed->size - size);
  claimed->state = BlockState::dead;
  if (place.run != nullptr) {
    map_.unindex(place.run);
    place.run->state = BlockState::claimed;
  }
  return claimed;
}

void LakeGrower::unclaim(LakeBlock* claimed, LakeBlock* run) {
  claimed->state = BlockState::unmapped;
  map_.merge(claimed);
  if (run == nullptr) return;
  run->state = BlockState::free;
  map_.index(map_.merge(run));
}

LakeBlock* LakeGrower::grow(const Plan& plan, Lane& lane, Bytes size, const Devices& users, Unlocker* unlocker) {
  Place place = plan.place;
  if (place.hole == nullptr) {
    place.range = &add_range(lane, hole_for(map_, size));
    place.hole = place.range->lowest;
  }
  Range& range = *place.range;
  const Address top = place.hole->end();
  const std::vector<Making> makings = homes_.assign(plan.fresh, lane.stream, plan.on);
  Bytes total{0};
  for (const Making& making : makings) total = total + making.size;

  LakeBlock* claimed = claim(place, total);
  Ledger& ledger = homes_.ledger();
  for (const Making& making : makings) ledger.promise(making.size, making.on);
  const auto withdraw = [&] {
    for (const Making& making : makings) ledger.withdraw(making.size, making.on);
  };

  std::size_t failed_on = homes_.count();
  Made made;
  try {
    const Devices kept = users;  // another thread may change the list meanwhile
    const UnlockedScope unlocked(unlocker);
    made = make(makings, kept, range, top, failed_on);
  } catch (...) {
    withdraw();
    if (failed_on < homes_.count()) homes_.note_shortage(failed_on);
    unclaim(claimed, place.run);
    throw;
  }
  withdraw();

  Address at = top;
  for (std::size_t i = 0; i < made.chunks.size(); ++i) {
    at = {at.value - made.chunks[i]->size.count};
    map_.settle(*made.chunks[i], range, at, std::move(made.mappings[i]));
  }
  for (auto& chunk : made.chunks) homes_.add(map_.add_chunk(std::move(chunk)));
  map_.watch.mapped({at, top - at}, lane.stream);
  claimed->state = BlockState::free;
  claimed->is_spilled = false;
  if (place.run != nullptr) {
    place.run->state = BlockState::free;
    map_.swallow_above(claimed);
  }
  // The free memory above, if there is any, may lie on another home.
  LakeBlock* run = plan.on ? claimed : map_.merge(claimed);
  map_.index(run);
  return map_.take_high(run, size);
}

LakeGrower::Made LakeGrower::make(const std::vector<Making>& makings, const Devices& users, const Range& range,
                                  Address top, std::size_t& failed_on) const {
  Made made;
  for (const Making& making : makings) {
    try {
      made.chunks.push_back(homes_.create(making));
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
  homes_.grant({at, top - at}, users, homes_.is_on_host() ? top - at : Bytes{0});
  return made;
}

}  // namespace memlake
