// The part of LakeSpace that decides. Everything here reads; it may add a range of bare addresses.

#include <algorithm>

#include "policies/lake/lake_space.hpp"
#include "policies/lake/lake_tuning.hpp"

namespace memlake {

namespace {

Bytes least(Bytes a, Bytes b) { return std::min(a, b); }

Bytes total_of(const std::vector<Part>& parts) {
  Bytes sum{0};
  for (const Part& part : parts) sum = sum + part.size();
  return sum;
}

/// Chooses whole chunks until `wanted` bytes are there: the smallest that is enough, else the largest.
class Chooser {
 public:
  explicit Chooser(std::vector<Part> parts, const Range& target) : parts_(std::move(parts)), is_used_(parts_.size()) {
    std::ranges::stable_sort(parts_, {}, [](const Part& part) { return part.chunk->size; });
    largest_ = parts_.size();
    // A range that reaches deep gives its deepest chunks first, so that its lower end retreats.
    const auto limit = static_cast<double>(target.range.size.count) * kDeep;
    if (static_cast<double>(target.depth().count) <= limit) return;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].chunk->range == &target) deepest_.push_back(i);
    std::ranges::sort(deepest_, {}, [&](std::size_t i) { return parts_[i].chunk->address; });
  }

  void choose(Bytes wanted) {
    for (const std::size_t i : deepest_) {
      if (chosen_bytes_ >= wanted) return;
      if (!is_used_[i] && parts_[i].chunk->size <= wanted - chosen_bytes_) use(i);
    }
    while (chosen_bytes_ < wanted) {
      while (largest_ > 0 && is_used_[largest_ - 1]) --largest_;
      if (largest_ == 0) return;
      const Bytes missing = wanted - chosen_bytes_;
      std::size_t best = largest_ - 1;
      if (parts_[best].chunk->size >= missing) {
        const auto from =
            std::lower_bound(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(largest_), missing,
                             [](const Part& part, Bytes size) { return part.chunk->size < size; });
        best = static_cast<std::size_t>(from - parts_.begin());
        while (is_used_[best]) ++best;
      }
      use(best);
    }
  }

  [[nodiscard]] const std::vector<Part>& chosen() const { return chosen_; }
  [[nodiscard]] Bytes bytes() const { return chosen_bytes_; }

 private:
  void use(std::size_t i) {
    is_used_[i] = true;
    chosen_.push_back(parts_[i]);
    chosen_bytes_ = chosen_bytes_ + parts_[i].chunk->size;
  }

  std::vector<Part> parts_;
  std::vector<bool> is_used_;
  std::vector<std::size_t> deepest_;
  std::size_t largest_;
  std::vector<Part> chosen_;
  Bytes chosen_bytes_;
};

/// What a free run could grow to: itself and the addresses without memory right below it.
Bytes reach(const Block& run) {
  const bool can_grow = run.previous != nullptr && run.previous->state == BlockState::unmapped;
  return can_grow ? run.size + run.previous->size : run.size;
}

}  // namespace

Bytes LakeSpace::round(Bytes requested) const { return requested.rounded_up({512}); }

Bytes LakeSpace::budget() const {
  Bytes sum{0};
  for (const Home& home : homes_) sum = sum + home.most;
  return down(least(ledger_.most(), sum));
}

Bytes LakeSpace::room() const { return budget().excess_over(ledger_.held() + ledger_.promised()); }

Lane* LakeSpace::known_lane(StreamId stream, bool is_small) const {
  return stream < lanes_.size() ? lanes_[stream][is_small ? 1 : 0].get() : nullptr;
}

Lane& LakeSpace::lane_of(StreamId stream, bool is_small) {
  if (lanes_.size() <= stream) lanes_.resize(std::size_t{stream} + 1);
  auto& lane = lanes_[stream][is_small ? 1 : 0];
  if (lane == nullptr) lane = std::make_unique<Lane>(Lane{.stream = stream, .group = is_small ? small_ : large_});
  return *lane;
}

/// A run that can grow counts as large as it could become, so that it is spared as long as another one fits.
LakeBlock* LakeSpace::best_fit(const Lane& lane, Bytes size) {
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

LakeBlock* LakeSpace::find(Bytes size, StreamId stream) const {
  const bool is_small = size <= kLargestSmall;
  if (is_small && size >= kFillFrom) {
    const Lane* large = known_lane(stream, false);
    const bool is_full = static_cast<double>(ledger_.held().count) > kFillLevel * static_cast<double>(budget().count);
    if (large != nullptr && is_full)
      if (LakeBlock* sliver = best_fit(*large, size); sliver != nullptr && sliver->size <= kLargestSmall) return sliver;
  }
  const Lane* lane = known_lane(stream, is_small);
  return lane == nullptr ? nullptr : best_fit(*lane, size);
}

LakeBlock* LakeSpace::find_elsewhere(Bytes size, StreamId stream) const {
  if (const Lane* other = known_lane(stream, size > kLargestSmall))
    if (LakeBlock* run = best_fit(*other, size)) return run;
  LakeBlock* best = nullptr;
  for (std::size_t owner = 0; owner < lanes_.size(); ++owner)
    for (const auto& lane : lanes_[owner]) {
      if (owner == stream || lane == nullptr) continue;
      LakeBlock* run = best_fit(*lane, size);
      if (run != nullptr && (best == nullptr || run->size < best->size)) best = run;
    }
  return best;
}

LakeBlock* LakeSpace::find_ordered(Bytes size, StreamId stream) const {
  if (size <= kLargestSmall)
    return nullptr;  // their ranges grow by a granule at a time, which costs less than a search
  LakeBlock* best = nullptr;
  for (std::size_t owner = 0; owner < lanes_.size(); ++owner) {
    const Lane* lane = owner == stream ? nullptr : lanes_[owner][0].get();
    LakeBlock* run = lane == nullptr ? nullptr : best_fit(*lane, size);
    const bool is_better = run != nullptr && (best == nullptr || run->size < best->size);
    if (is_better && clock_.known_reuse(stream, run->freed(), rules_) != StreamClock::Reuse::none) best = run;
  }
  return best;
}

Bytes LakeSpace::chunk_limit(Bytes size) const {
  if (size <= kLargestSmall) return granule_;
  const Bytes usual = std::max(kSmallestChunk, least(kLargestChunk, {size.count / kChunksPerBlock}));
  return std::max(granule_, down(std::max(usual, {size.count / kMostChunksPerBlock})));
}

/// Equal chunks, each a multiple of the granule.
std::vector<Bytes> LakeSpace::chunk_sizes(Bytes total, Bytes size) const {
  const Bytes limit = chunk_limit(size);
  std::vector<Bytes> sizes;
  for (std::uint64_t left = (total.count + limit.count - 1) / limit.count; left > 0; --left) {
    const Bytes next = least(total, up({total.count / left}));
    sizes.push_back(next);
    total = total - next;
  }
  return sizes;
}

LakeSpace::Place LakeSpace::place_for(Lane& lane, Bytes size) {
  const Bytes wanted = size + largest_chunk_;  // a chunk that is moved may be larger than what is missing
  Place best{nullptr, nullptr, nullptr};
  const auto run_above = [&](LakeBlock* hole) {
    LakeBlock* above = hole->above();
    const bool is_run = above != nullptr && above->state == BlockState::free && !above->is_spilled;
    return is_run && above->size < size ? above : nullptr;
  };
  for (const auto& range : lane.ranges) {
    LakeBlock* end = range->lowest;
    if (end->state == BlockState::unmapped && end->size >= wanted) best = {range.get(), run_above(end), end};
  }
  for (const Block* run = lane.free.last(); run != nullptr && run->size >= granule_; run = lane.free.before(run)) {
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
  if (best.hole != nullptr) return best;
  Range& range = add_range(lane, wanted);
  return {&range, nullptr, range.lowest};
}

void LakeSpace::add_whole_chunks(LakeBlock* run, std::vector<Part>& parts) const {
  const Range& range = static_cast<const Range&>(*run->memory);
  LakeChunk* chunk = range.chunk_at(run->address);
  Address at = chunk->address < run->address ? chunk->at().end() : run->address;
  while (at < run->end()) {
    chunk = range.chunk_at(at);
    if (chunk->at().end() > run->end()) break;
    parts.push_back({run, chunk, {0}, chunk->size});
    at = chunk->at().end();
  }
}

template <class Visit>
void LakeSpace::for_each_run(const LakeBlock* except, Visit&& visit) const {
  for_each_lane([&](const Lane& lane) {
    for (Block* run = lane.free.last(); run != nullptr && run->size >= granule_; run = lane.free.before(run))
      if (run != except && !visit(static_cast<LakeBlock*>(run))) return;
  });
}

std::vector<Part> LakeSpace::whole_chunks(const LakeBlock* except) const {
  std::vector<Part> parts;
  for_each_run(except, [&](LakeBlock* run) {
    add_whole_chunks(run, parts);
    return true;
  });
  return parts;
}

/// The free first part of the chunk in which a run ends.
std::optional<Part> LakeSpace::first_part(LakeBlock* run) const {
  LakeChunk* chunk = static_cast<const Range&>(*run->memory).chunk_at({run->end().value - 1});
  if (chunk->address < run->address || chunk->at().end() == run->end()) return std::nullopt;
  const Bytes size = down(run->end() - chunk->address);
  if (size.count == 0) return std::nullopt;
  return Part{run, chunk, {0}, size};
}

/// The free part of the chunk in which a run begins, if the chunk begins before it.
std::optional<Part> LakeSpace::odd_part(LakeBlock* run) const {
  LakeChunk* chunk = static_cast<const Range&>(*run->memory).chunk_at(run->address);
  if (chunk->address >= run->address) return std::nullopt;
  const Bytes begin = run->address - chunk->address;
  const Bytes end = least(chunk->size, down(run->end() - chunk->address));
  if (end <= begin) return std::nullopt;
  return Part{run, chunk, begin, end};
}

std::vector<Part> LakeSpace::first_parts(const LakeBlock* except) const {
  std::vector<Part> parts;
  for_each_run(except, [&](LakeBlock* run) {
    if (const auto part = first_part(run)) parts.push_back(*part);
    return true;
  });
  return parts;
}

std::optional<Part> LakeSpace::largest_odd_part(const LakeBlock* except) const {
  std::optional<Part> largest;
  for_each_run(except, [&](LakeBlock* run) {
    if (largest && run->size <= largest->size()) return false;
    const auto part = odd_part(run);
    if (part && (!largest || part->size() > largest->size())) largest = part;
    return true;
  });
  return largest;
}

Bytes LakeSpace::free_from(const LakeBlock* run) const {
  Bytes sum = total_of(whole_chunks(run));
  if (options_.may_alias) {
    const auto odd = largest_odd_part(run);
    sum = sum + total_of(first_parts(run)) + down(odd ? odd->size() : Bytes{0});
  }
  return run == nullptr ? sum : sum + run->size;
}

/// A chunk that is too large by far is made anew as two, so that the rest can be found whole again.
void LakeSpace::split_excess(Plan& plan, Bytes size, Bytes excess) {
  if (excess.count == 0 || chunk_limit(size) >= excess) return;
  for (const Part& part : plan.moved) {
    const bool is_done = part.chunk->views == 0 && clock_.has_passed(part.run->freed());
    const bool is_best = plan.recreated == nullptr || part.chunk->size < plan.recreated->size;
    if (part.chunk->size > excess && is_done && is_best) plan.recreated = part.chunk;
  }
  if (plan.recreated == nullptr) return;
  plan.fresh.insert(plan.fresh.begin(), plan.recreated->size - excess);
  plan.fresh.push_back(excess);
}

std::optional<LakeSpace::Plan> LakeSpace::plan(Lane& lane, Bytes size) {
  const Place place = place_for(lane, size);
  const Bytes need = up(size - (place.run == nullptr ? Bytes{0} : place.run->size));
  const Bytes free_room = room();
  const std::vector<Part> wholes = whole_chunks(place.run);
  const Bytes whole_bytes = total_of(wholes);

  const auto missing_from = [&](Bytes wanted) { return whole_bytes < wanted ? up(wanted - whole_bytes) : Bytes{0}; };

  // An odd part as the lowest piece makes the sum exact, and uses what no other plan can.
  if (options_.may_alias && !lane.is_small() && need >= kSmallestOdd * 2) {
    const auto odd = largest_odd_part(place.run);
    if (odd && odd->size() >= kSmallestOdd && odd->size() < need && whole_bytes + free_room >= need - odd->size()) {
      const Bytes wanted = need - odd->size();
      const Bytes fresh = missing_from(wanted);
      Chooser chooser(wholes, *place.range);
      chooser.choose(wanted - fresh);
      if (chooser.bytes() + fresh < need)
        return Plan{.place = place, .moved = chooser.chosen(), .fresh = chunk_sizes(fresh, size), .odd = odd};
    }
  }
  // Whole chunks, and new memory only for what they lack.
  if (whole_bytes + free_room >= need) {
    const Bytes fresh = missing_from(need);
    Chooser chooser(wholes, *place.range);
    chooser.choose(need - fresh);
    Plan plan{.place = place, .moved = chooser.chosen(), .fresh = chunk_sizes(fresh, size)};
    split_excess(plan, size, chooser.bytes() + fresh - need);
    return plan;
  }
  // Everything that is whole, and as few first parts of other chunks as make up the rest.
  if (options_.may_alias) {
    std::vector<Part> firsts = first_parts(place.run);
    Bytes rest = need - whole_bytes - free_room;
    std::optional<Part> odd;
    if (total_of(firsts) < rest) odd = largest_odd_part(place.run);
    if (total_of(firsts) + (odd ? odd->size() : Bytes{0}) >= rest) {
      Plan plan{.place = place, .moved = wholes, .fresh = chunk_sizes(free_room, size), .odd = odd};
      if (odd) rest = rest.excess_over(odd->size());
      rest = up(rest);
      std::ranges::sort(firsts, std::greater<>{}, [](const Part& part) { return part.end; });
      for (std::size_t i = 0; i < firsts.size() && rest.count > 0; ++i) {
        std::size_t chosen = i;  // the smallest that is enough, else the largest
        if (firsts[i].end >= rest)
          while (chosen + 1 < firsts.size() && firsts[chosen + 1].end >= rest) ++chosen;
        plan.borrowed.push_back(firsts[chosen]);
        plan.borrowed.back().end = least(firsts[chosen].end, rest);
        rest = rest - plan.borrowed.back().end;
      }
      return plan;
    }
  }
  // The run itself may be in the way: without it as a base its chunks count as any others.
  free_in_one_range_ = free_from(place.run);
  if (place.run == nullptr) return std::nullopt;
  const std::vector<Part> all = whole_chunks(nullptr);
  const Bytes wanted = up(size);
  if (total_of(all) + free_room < wanted) return std::nullopt;
  free_in_one_range_.reset();
  const Bytes fresh = total_of(all) < wanted ? wanted - total_of(all) : Bytes{0};
  Chooser chooser(all, *place.range);
  chooser.choose(wanted - fresh);
  Plan plan{.place = {place.range, nullptr, place.hole}, .moved = chooser.chosen(), .fresh = chunk_sizes(fresh, size)};
  // Below the run as it is now: its chunks leave it, and what stays of it stays where it is.
  split_excess(plan, size, chooser.bytes() + fresh - wanted);
  return plan;
}

}  // namespace memlake
