#include "policies/lake/lake_planner.hpp"

#include <algorithm>

namespace memlake {

namespace {

Bytes total_of(const std::vector<Part>& parts) {
  Bytes sum{0};
  for (const Part& part : parts) sum = sum + part.size();
  return sum;
}

/// Whole chunks that have `wanted` bytes: each the smallest that is enough, else the largest.
std::vector<Part> choose_chunks(std::vector<Part> wholes, Bytes wanted) {
  std::ranges::stable_sort(wholes, {}, [](const Part& part) { return part.chunk->size; });
  std::vector<Part> chosen;
  while (wanted.count > 0 && !wholes.empty()) {
    const auto enough = std::ranges::lower_bound(wholes, wanted, {}, [](const Part& part) { return part.chunk->size; });
    const auto best = enough == wholes.end() ? std::prev(enough) : enough;
    chosen.push_back(*best);
    wanted = wanted.excess_over(best->chunk->size);
    wholes.erase(best);  // at the end, unless it is the last one
  }
  return chosen;
}

/// What a free run could grow to: itself and the addresses without memory right below it.
Bytes reach(const Block& run) {
  const bool can_grow = run.previous != nullptr && run.previous->state == BlockState::unmapped;
  return can_grow ? run.size + run.previous->size : run.size;
}

void add_whole_chunks(LakeBlock& run, std::vector<Part>& parts) {
  const Range& range = static_cast<const Range&>(*run.memory);
  LakeChunk* chunk = range.chunk_at(run.address);
  Address at = chunk->address < run.address ? chunk->at().end() : run.address;
  while (at < run.end()) {
    chunk = range.chunk_at(at);
    if (chunk->at().end() > run.end()) break;
    parts.push_back({&run, chunk, {0}, chunk->size});
    at = chunk->at().end();
  }
}

/// The free first part of the chunk in which a run ends.
std::optional<Part> first_part(const LakeMap& map, LakeBlock& run) {
  LakeChunk* chunk = static_cast<const Range&>(*run.memory).chunk_at({run.end().value - 1});
  if (chunk->address < run.address || chunk->at().end() == run.end()) return std::nullopt;
  const Bytes size = map.down(run.end() - chunk->address);
  if (size.count == 0) return std::nullopt;
  return Part{&run, chunk, {0}, size};
}

bool is_where_wished(const Wish& wish, const Part& part) { return !wish.on || part.chunk->device == *wish.on; }

std::vector<Part> first_parts(const LakeMap& map, const Wish& wish, const LakeBlock* except) {
  std::vector<Part> parts;
  map.for_each_run([&](LakeBlock& run) {
    if (&run == except || !is_usable(wish, run)) return;
    const auto part = first_part(map, run);
    if (part && is_where_wished(wish, *part)) parts.push_back(*part);
  });
  return parts;
}

/// The free part of the chunk in which a run begins, if the chunk begins before it. Its mapping begins with the chunk,
/// so it covers addresses below the block. Above its end the mapping must not go on: a whole chunk ends where the part
/// ends, and a first part can end anywhere.
std::optional<Part> odd_part(const LakeMap& map, LakeBlock& run, Aliasing level) {
  LakeChunk* chunk = static_cast<const Range&>(*run.memory).chunk_at(run.address);
  if (chunk->address >= run.address) return std::nullopt;
  const Bytes begin = run.address - chunk->address;
  const Bytes end = std::min(chunk->size, map.down(run.end() - chunk->address));
  if (end <= begin || (level < Aliasing::prefix && end < chunk->size)) return std::nullopt;
  return Part{&run, chunk, begin, end};
}

std::optional<Part> largest_odd_part(const LakeMap& map, const Wish& wish, const LakeBlock* except, Aliasing level) {
  std::optional<Part> largest;
  map.for_each_run([&](LakeBlock& run) {
    if (&run == except || (largest && run.size <= largest->size()) || !is_usable(wish, run)) return;
    const auto part = odd_part(map, run, level);
    if (part && is_where_wished(wish, *part) && (!largest || part->size() > largest->size())) largest = part;
  });
  return largest;
}

/// As few first parts as make up `rest`, each the smallest that is enough, else the largest.
std::vector<Part> choose_first_parts(std::vector<Part> firsts, Bytes rest) {
  std::vector<Part> chosen;
  std::ranges::sort(firsts, std::greater<>{}, [](const Part& part) { return part.end; });
  for (std::size_t i = 0; i < firsts.size() && rest.count > 0; ++i) {
    std::size_t best = i;
    if (firsts[i].end >= rest)
      while (best + 1 < firsts.size() && firsts[best + 1].end >= rest) ++best;
    chosen.push_back(firsts[best]);
    chosen.back().end = std::min(firsts[best].end, rest);
    rest = rest - chosen.back().end;
  }
  return chosen;
}

/// Whole chunks, and new memory only for the bytes that they lack; empty if that is too little.
std::optional<Plan> plan_whole(const LakeMap& map, const Wish& wish, const Place& place,
                               const std::vector<Part>& wholes, const LakeTuning& tuning) {
  const Bytes need = map.up(wish.size - place.run_size());
  const Bytes whole_bytes = total_of(wholes);
  if (whole_bytes + wish.room < need) return std::nullopt;
  const Bytes fresh = need.excess_over(whole_bytes);
  Plan plan{.place = place, .fresh = chunk_sizes(map, tuning, fresh, wish.size)};
  plan.moved = choose_chunks(wholes, need - fresh);
  return plan;
}

/// Everything that is whole, all new memory that there is room for, and as few parts of other chunks as make up the
/// rest.
std::optional<Plan> plan_parts(const LakeMap& map, const Wish& wish, const Place& place, std::vector<Part> wholes,
                               Aliasing level, const LakeTuning& tuning) {
  const Bytes room = map.down(wish.room);
  const Bytes all = wish.size - place.run_size() - room;
  Bytes rest = all - total_of(wholes);
  std::vector<Part> firsts;
  if (level >= Aliasing::prefix) firsts = first_parts(map, wish, place.run);
  std::optional<Part> odd;
  if (total_of(firsts) < rest) {
    odd = largest_odd_part(map, wish, place.run, level);
    if (!odd || total_of(firsts) + odd->size() < rest) return std::nullopt;
    rest = rest.excess_over(odd->size());
    // The part may be larger than the rest; then not every chunk is needed.
    if (rest.count == 0) wholes = choose_chunks(wholes, all.excess_over(odd->size()));
  }
  Plan plan{.place = place, .moved = std::move(wholes), .fresh = chunk_sizes(map, tuning, room, wish.size), .odd = odd};
  plan.borrowed = choose_first_parts(std::move(firsts), map.up(rest));
  return plan;
}

/// The free whole chunks that the request may use. Without aliasing, a chunk that an old view still shows must not be
/// mapped anew.
std::vector<Part> movable_chunks(const Wish& wish, std::vector<Part> wholes, Aliasing level) {
  std::erase_if(wholes, [&](const Part& part) {
    return !is_where_wished(wish, part) || !is_usable(wish, *part.run) ||
           (level == Aliasing::none && part.chunk->views > 0);
  });
  return wholes;
}

}  // namespace

bool is_usable(const Wish& wish, const LakeBlock& run) {
  return !wish.can_await || run.stream == wish.lane.stream || wish.can_await(run.stream) ||
         (wish.is_known_passed && wish.is_known_passed(run));
}

Aliasing Plan::borrows() const {
  if (!borrowed.empty()) return Aliasing::prefix;
  if (!odd) return Aliasing::none;
  return odd->end < odd->chunk->size ? Aliasing::prefix : Aliasing::whole;
}

LakeBlock* best_fit(const Lane& lane, Bytes size) {
  Block* best = lane.free.best_fit(size);
  if (best == nullptr) return nullptr;
  for (Bytes reached = reach(*best); reached != best->size;) {
    Block* next = lane.free.after(best);
    if (next == nullptr || reach(*next) >= reached) break;
    best = next;
    reached = reach(*best);
  }
  return static_cast<LakeBlock*>(best);
}

namespace {

/// The part of a run below `end` that lies on one device.
AddressRange part_on_one(const LakeBlock& run, Address end) {
  const Range& range = static_cast<const Range&>(*run.memory);
  const LakeChunk* chunk = range.chunk_at({end.value - 1});
  const std::size_t device = chunk->device;
  while (chunk->address > run.address) {
    const LakeChunk* below = range.chunk_at({chunk->address.value - 1});
    if (below->device != device) break;
    chunk = below;
  }
  const Address begin = std::max(chunk->address, run.address);
  return {begin, end - begin};
}

}  // namespace

std::optional<std::size_t> device_of(const LakeBlock& run) {
  if (part_on_one(run, run.end()).begin != run.address) return std::nullopt;
  return static_cast<const Range&>(*run.memory).chunk_at(run.address)->device;
}

Fit best_fit_on_one(const Lane& lane, Bytes size) {
  for (auto* run = static_cast<LakeBlock*>(lane.free.best_fit(size)); run != nullptr;
       run = static_cast<LakeBlock*>(lane.free.after(run)))
    for (Address end = run->end(); end > run->address;) {
      const AddressRange part = part_on_one(*run, end);
      if (part.size >= size) return {run, end};
      end = part.begin;
    }
  return {};
}

Bytes hole_for(const LakeMap& map, Bytes size) { return map.up(size + map.largest_chunk()); }

Place find_place(const LakeMap& map, const Lane& lane, Bytes size) {
  const Bytes wanted = hole_for(map, size);
  Place best;
  const auto run_above = [&](LakeBlock* hole) {
    LakeBlock* above = hole->above();
    const bool is_run = above != nullptr && above->state == BlockState::free && !above->is_spilled;
    return is_run && above->size < size ? above : nullptr;
  };
  for (const auto& range : lane.ranges) {
    LakeBlock* end = range->lowest;
    if (end->state == BlockState::unmapped && end->size >= wanted) best = {range.get(), run_above(end), end};
  }
  for (const Block* run = lane.free.last(); run != nullptr && run->size >= map.granule(); run = lane.free.before(run)) {
    if (best.run != nullptr && run->size <= best.run->size) break;
    Block* hole = run->previous;
    if (run->size >= size || hole == nullptr || hole->state != BlockState::unmapped || hole->size < wanted) continue;
    best = {static_cast<Range*>(run->memory), static_cast<LakeBlock*>(hole->next), static_cast<LakeBlock*>(hole)};
    break;
  }
  if (best.hole != nullptr) return best;
  for (const auto& range : lane.ranges)
    for (LakeBlock* block = range->lowest; block != nullptr; block = block->above())
      if (block->state == BlockState::unmapped && block->size >= wanted &&
          (best.hole == nullptr || block->size > best.hole->size))
        best = {range.get(), run_above(block), block};
  return best;
}

std::vector<Bytes> chunk_sizes(const LakeMap& map, const LakeTuning& tuning, Bytes total, Bytes size) {
  Bytes limit = map.granule();
  if (size > tuning.largest_small) {
    const Bytes usual =
        std::clamp(Bytes{size.count / tuning.chunks_per_block}, tuning.smallest_chunk, tuning.largest_chunk);
    limit = std::max(limit, map.down(std::max(usual, {size.count / tuning.most_chunks_per_block})));
  }
  std::vector<Bytes> sizes;
  for (std::uint64_t left = (total.count + limit.count - 1) / limit.count; left > 0; --left) {
    sizes.push_back(std::min(total, map.up({total.count / left})));
    total = total - sizes.back();
  }
  return sizes;
}

std::vector<Part> whole_chunks(const LakeMap& map, const LakeBlock* except) {
  std::vector<Part> parts;
  map.for_each_run([&](LakeBlock& run) {
    if (&run != except) add_whole_chunks(run, parts);
  });
  return parts;
}

std::vector<Part> spilled_chunks(const LakeMap& map) {
  std::vector<Part> parts;
  map.lanes().for_each([&](const Lane& lane) {
    for (Block* run = lane.spilled.last(); run != nullptr && run->size >= map.granule(); run = lane.spilled.before(run))
      add_whole_chunks(*static_cast<LakeBlock*>(run), parts);
  });
  return parts;
}

std::optional<Plan> plan_growth(const LakeMap& map, const Wish& wish, const LakeTuning& tuning, bool uses_run) {
  Place place = find_place(map, wish.lane, wish.size);
  if (!uses_run) place.run = nullptr;
  const Bytes exact = wish.size - place.run_size();
  const Bytes need = map.up(exact);
  if (need > wish.room) return std::nullopt;
  // A neighbour gets the rest of the last granule, so that granule is a chunk of its own: the neighbour must not keep
  // the other chunks of this block in their places.
  const bool shares_last = !wish.lane.is_small() && !exact.is_multiple_of(map.granule()) && need > map.granule();
  Plan plan{.place = place, .fresh = chunk_sizes(map, tuning, shares_last ? need - map.granule() : need, wish.size)};
  if (shares_last) plan.fresh.push_back(map.granule());
  return plan;
}

std::optional<Plan> plan(const LakeMap& map, const Wish& wish, Aliasing level, const LakeTuning& tuning) {
  Place place = find_place(map, wish.lane, wish.size);
  if (wish.on && place.run != nullptr && device_of(*place.run) != wish.on) place.run = nullptr;
  std::vector<Part> wholes = movable_chunks(wish, whole_chunks(map, place.run), level);
  const auto where_wished = [&](std::optional<Plan> found) {
    if (found) found->on = wish.on;
    return found;
  };
  // Without a second mapping a chunk leaves its old address first, and the host waits for the streams that use it
  // there. So the chunks of streams that have passed serve first.
  if (level == Aliasing::none && wish.has_passed) {
    std::vector<Part> passed = wholes;
    std::erase_if(passed, [&](const Part& part) { return !wish.has_passed(*part.run); });
    if (wish.on) return where_wished(plan_whole(map, wish, place, passed, tuning));
    if (passed.size() < wholes.size())
      if (auto found = plan_whole(map, wish, place, passed, tuning)) return found;
  }
  if (auto found = plan_whole(map, wish, place, wholes, tuning)) return where_wished(std::move(found));
  if (level == Aliasing::none) return std::nullopt;
  return where_wished(plan_parts(map, wish, place, std::move(wholes), level, tuning));
}

Plan plan_spill(const LakeMap& map, const Wish& wish, Aliasing level, const LakeTuning& tuning) {
  const Place place = find_place(map, wish.lane, wish.size);
  Bytes missing = map.up(wish.size - place.run_size());
  Plan plan{.place = place};
  // The largest first, so that the last one is the least too large.
  const auto move = [&](std::vector<Part> wholes) {
    std::ranges::stable_sort(wholes, std::greater<>{}, [](const Part& part) { return part.chunk->size; });
    for (const Part& whole : wholes) {
      if (missing.count == 0) return;
      plan.moved.push_back(whole);
      missing = missing.excess_over(whole.chunk->size);
    }
  };
  move(movable_chunks(wish, whole_chunks(map, place.run), level));
  const Bytes fresh = std::min(missing, map.down(wish.room));
  plan.fresh = chunk_sizes(map, tuning, fresh, wish.size);
  missing = missing - fresh;
  move(movable_chunks(wish, spilled_chunks(map), level));
  plan.spilled = chunk_sizes(map, tuning, missing, wish.size);
  return plan;
}

Bytes largest_plan(const LakeMap& map, Wish wish, Aliasing level, const LakeTuning& tuning, Bytes most) {
  Bytes low{0};
  Bytes high = map.down(most) + map.granule();  // the least size that is known to be too large
  while (high - low > map.granule()) {
    wish.size = map.down({(low.count + high.count) / 2});
    (plan(map, wish, level, tuning) ? low : high) = wish.size;
  }
  return low;
}

Bytes least_room(const LakeMap& map, Wish wish, Aliasing level, const LakeTuning& tuning) {
  wish.room = {0};
  if (plan(map, wish, level, tuning)) return wish.room;
  Bytes low{0};
  Bytes high = map.up(wish.size);
  while (high - low > map.granule()) {
    wish.room = map.down({(low.count + high.count) / 2});
    (plan(map, wish, level, tuning) ? high : low) = wish.room;
  }
  return high;
}

}  // namespace memlake
