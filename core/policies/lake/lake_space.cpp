#include "policies/lake/lake_space.hpp"

#include <algorithm>

#include "base/bytes_text.hpp"
#include "base/host_memory.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

// While there is room, memory of a stream that only happens to have passed is left to it.
constexpr Rung kLadder[] = {Rung::search_ordered, Rung::grow,          Rung::wait_on_device, Rung::wait_for_threads,
                            Rung::gather,         Rung::gather_asking, Rung::gather_waiting, Rung::spill};
// If no stream may wait for another one on the device.
constexpr Rung kLadderOfHost[] = {Rung::search_ordered,   Rung::grow,   Rung::wait_for_events,
                                  Rung::wait_for_threads, Rung::gather, Rung::gather_asking,
                                  Rung::gather_waiting,   Rung::spill};

/// The highest level that is proven on all devices.
Aliasing proven_on(const Devices& devices) {
  Aliasing level = Aliasing::prefix;
  for (const auto& device : devices) level = std::min(level, proven_aliasing(device));
  return level;
}

/// Whether cuMemUnmap failed for a reason that a second try may not meet.
bool fails_to_unmap(const Error& error) {
  return error.kind() != ErrorKind::contract_violation && error.answer() != nullptr &&
         std::string_view(error.answer()->call) == "cuMemUnmap";
}

}  // namespace

LakeSpace::LakeSpace(std::vector<std::shared_ptr<Device>> devices, const LakeOptions& options, EventSource& events,
                     std::shared_ptr<Budget> budget, const LakeTuning& tuning)
    : Space(devices, options.location == Location::device ? total_memory(devices) : host_memory(), events,
            Ledger(std::move(budget), devices.size())),
      options_(options),
      tuning_(tuning),
      level_(aliasing_of(options.aliasing).value_or(proven_on(devices))),
      homes_(std::move(devices), options, events, ledger_, reach_.total()),
      map_(homes_.granule()),
      waits_(events),
      grower_(map_, homes_, tuning_),
      gatherer_(map_, homes_, waits_, grower_) {
  facets_ = {.reuse = this,
             .several_owners = this,
             .crowding = this,
             .several_places = this,
             .peer_access = this,
             .chunk_exports = this,
             .counters = this};
  reach_.set_location(options_.location);
}

LakeSpace::~LakeSpace() = default;

Block* LakeSpace::take(Bytes rounded, StreamId stream) {
  const Lane* lane = map_.lanes().known(stream, is_small(rounded));
  const Fit fit = lane == nullptr ? Fit{} : fit_in(*lane, rounded);
  return fit.run == nullptr ? nullptr : take(fit, rounded);
}

Block* LakeSpace::take(const Fit& fit, Bytes size) {
  if (fit.end == fit.run->end()) return map_.take_high(fit.run, size);
  LakeBlock* block = map_.isolate(fit.run, {{fit.end.value - size.count}, size});
  map_.count_used(size);
  return block;
}

Ladder LakeSpace::ladder(const Attempt&) const {
  return waits_.rules.allow_internal_dependencies ? Ladder(kLadder) : Ladder(kLadderOfHost);
}

Block* LakeSpace::climb(Rung rung, Attempt& attempt) {
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  Lane& lane = map_.lanes().of(stream, is_small(size));
  switch (rung) {
    case Rung::search_ordered:
      gatherer_.reap();
      events_.progress().find_complete_ends();
      if (Fit fit = find_ordered(size, stream);
          fit.run != nullptr || (fit = find_unused(size, stream)).run != nullptr) {
        waits_.let_wait(stream, *fit.run);
        return take(fit, size);
      }
      return nullptr;
    case Rung::grow:
      if (homes_.room() < map_.granule() || size > homes_.budget()) return nullptr;
      return try_to(attempt, Tried::What::map, [&]() -> Block* {
        if (!homes_.keeps_blocks_whole()) return grow(lane, size);
        if (Block* block = grow_on_one(lane, size)) return block;
        if (Block* block = gather_on_one(lane, size)) return block;
        // No device can give it alone.
        LakeBlock* run = best_fit(lane, size);
        return run != nullptr ? map_.take_high(run, size) : grow(lane, size);
      });
    case Rung::wait_for_threads:
      gatherer_.reap();
      // Memory that other threads are creating may serve this request, too; and it cannot be gathered before.
      if (unlocker_ != nullptr) unlocker_->wait_for_others();
      return nullptr;
    case Rung::gather:
      return gather(attempt, lane);
    case Rung::gather_asking:
      return homes_.has_more_than_known() ? gather(attempt, lane) : nullptr;
    case Rung::gather_waiting:
      return gatherer_.wait_for_free_memory() ? gather(attempt, lane) : nullptr;
    default:
      return options_.may_spill ? spill(attempt, lane) : nullptr;
  }
}

const Lane* LakeSpace::shared_lane_of(StreamId owner, StreamId stream) const {
  if (owner == stream) return nullptr;
  // There may be room on the stream's own device.
  if (options_.placement == Placement::near &&
      events_.handles().device_of(owner) != events_.handles().device_of(stream))
    return nullptr;
  return map_.lanes().known(owner, false);
}

Fit LakeSpace::find_ordered(Bytes size, StreamId stream) const {
  // The lanes of small requests grow by a granule at a time, which costs less than a search.
  if (is_small(size)) return {};
  Fit best;
  for (std::size_t owner = 0; owner < map_.lanes().stream_count(); ++owner) {
    const Lane* lane = shared_lane_of(static_cast<StreamId>(owner), stream);
    const Fit fit = lane == nullptr ? Fit{} : fit_in(*lane, size);
    const bool is_better = fit.run != nullptr && (best.run == nullptr || fit.run->size < best.run->size);
    if (is_better && waits_.clock.known_reuse(stream, fit.run->freed(), waits_.rules) != StreamClock::Reuse::none)
      best = fit;
  }
  return best;
}

Fit LakeSpace::find_unused(Bytes size, StreamId stream) {
  constexpr int kMostQuestions = 4;
  constexpr std::size_t kMostSteps = 256;
  if (is_small(size) || !waits_.rules.allow_opportunistic) return {};
  int questions = 0;
  for (std::size_t steps = std::min(kMostSteps, map_.lanes().stream_count()); steps > 0 && questions < kMostQuestions;
       --steps) {
    next_unused_ = (next_unused_ + 1) % map_.lanes().stream_count();
    const auto owner = static_cast<StreamId>(next_unused_);
    const Lane* lane = events_.handles().is_unused_for_long(owner) ? shared_lane_of(owner, stream) : nullptr;
    if (lane == nullptr) continue;
    const Fit fit = fit_in(*lane, size);
    if (fit.run == nullptr) continue;
    ++questions;
    if (events_.progress().has_passed_all(owner)) return fit;
  }
  return {};
}

Fit LakeSpace::find_elsewhere(Bytes size, StreamId stream) const {
  if (const Lane* other = map_.lanes().known(stream, !is_small(size)))
    if (const Fit fit = fit_in(*other, size); fit.run != nullptr) return fit;
  Fit best;
  map_.lanes().for_each([&](const Lane& lane) {
    const Fit fit = lane.stream == stream ? Fit{} : fit_in(lane, size);
    if (fit.run != nullptr && (best.run == nullptr || fit.run->size < best.run->size)) best = fit;
  });
  return best;
}

LakeBlock* LakeSpace::find_spilled(Bytes size, StreamId stream) const {
  LakeBlock* best = nullptr;
  const auto better = [&](const Lane& lane) {
    auto* run = static_cast<LakeBlock*>(lane.spilled.best_fit(size));
    if (run != nullptr && (best == nullptr || run->size < best->size) && can_use(*run, stream)) best = run;
  };
  for (const bool small : {is_small(size), !is_small(size)})
    if (const Lane* lane = map_.lanes().known(stream, small); lane != nullptr && best == nullptr) better(*lane);
  if (best == nullptr) map_.lanes().for_each(better);
  return best;
}

std::function<bool(StreamId)> LakeSpace::can_await() const {
  return [this, known = std::vector<std::optional<bool>>(map_.lanes().stream_count())](StreamId stream) mutable {
    if (!known[stream]) known[stream] = events_.progress().can_record(stream);
    return *known[stream];
  };
}

std::function<bool(const LakeBlock&)> LakeSpace::is_known_passed() const {
  return [this](const LakeBlock& run) { return waits_.clock.is_known_passed(run.freed()); };
}

Wish LakeSpace::wish_for(const Lane& lane, Bytes size) {
  const auto has_passed = [this](const LakeBlock& run) { return waits_.clock.has_passed(run.freed()); };
  return {lane, size, homes_.room(), can_await(), has_passed, is_known_passed()};
}

bool LakeSpace::is_crowded() const {
  return waits_.rules.allow_internal_dependencies &&
         static_cast<double>(map_.used().count) > tuning_.crowded * static_cast<double>(homes_.budget().count);
}

template <class Act>
Block* LakeSpace::try_to(Attempt& attempt, Tried::What what, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.tried.push_back({what, true});
    return nullptr;
  }
}

Block* LakeSpace::grow(Lane& lane, Bytes size) {
  const auto found = plan_growth(map_, wish_for(lane, size), tuning_);
  return found ? grower_.grow(*found, lane, size, reach_.accessors(), unlocker_) : nullptr;
}

Block* LakeSpace::grow_on_one(Lane& lane, Bytes size) {
  const Wish wish = wish_for(lane, size);
  const auto new_memory = [](const Plan& plan) {
    Bytes total{0};
    for (const Bytes fresh : plan.fresh) total = total + fresh;
    return total;
  };
  const auto carry_out = [&](Plan plan, std::size_t on) {
    plan.on = on;
    return grower_.grow(plan, lane, size, reach_.accessors(), unlocker_);
  };
  const auto alone = plan_growth(map_, wish, tuning_, false);
  const auto best = alone ? homes_.home_for(new_memory(*alone)) : std::nullopt;
  const auto joined = plan_growth(map_, wish, tuning_);
  // A free run above is a part of the block if it lies on the device that is to be used, or if no other one has room.
  if (joined && joined->place.run != nullptr) {
    const auto on = device_of(*joined->place.run);
    if (on && (!best || *on == *best) && homes_.has_room_on(*on, new_memory(*joined))) return carry_out(*joined, *on);
  }
  return best ? carry_out(*alone, *best) : nullptr;
}

Block* LakeSpace::gather_on_one(Lane& lane, Bytes size) {
  for (const std::size_t home : homes_.by_share()) {
    Block* block = carry_out(lane, size, [&] {
      Wish wish = wish_for(lane, size);
      wish.on = home;
      wish.room = std::min(wish.room, homes_.room_on(home));
      return plan(map_, wish, level_, tuning_);
    });
    if (block != nullptr) return block;
  }
  return nullptr;
}

template <class MakePlan>
Block* LakeSpace::carry_out(Lane& lane, Bytes size, MakePlan&& make_plan) {
  bool may_fail_to_unmap = true;  // once: a second failure reaches the caller
  while (true) {
    std::optional<Plan> found = make_plan();
    if (!found) return nullptr;
    const bool moves_early = level_ != Aliasing::none && !found->moved.empty();
    const Aliasing used = std::max(found->borrows(), moves_early ? Aliasing::whole : Aliasing::none);
    try {
      return gatherer_.carry_out(*std::move(found), lane, size, level_, reach_.accessors());
    } catch (const Error& error) {
      // The next plan may choose the same addresses, so a mapping that could not be undone must go first.
      homes_.retry_leftovers();
      // A chunk that could not leave its addresses stayed there.
      if (fails_to_unmap(error) && std::exchange(may_fail_to_unmap, false)) continue;
      if (used == Aliasing::none || !refuses_mapping(error)) throw;
      level_ = static_cast<Aliasing>(static_cast<int>(used) - 1);
      homes_.note_refusal(used == Aliasing::prefix ? Feature::partial_mapping : Feature::second_mapping, error);
    }
  }
}

Block* LakeSpace::gather(Attempt& attempt, Lane& lane) {
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  // A limit below the held memory takes nothing away.
  if (size > std::max(homes_.budget(), ledger_.held())) return nullptr;
  const auto use = [&](const Fit& fit) -> Block* {
    if (fit.run == nullptr || !can_use(*fit.run, stream)) return nullptr;
    return try_to(attempt, Tried::What::wait_on_device, [&] {
      waits_.let_wait(stream, *fit.run);
      return take(fit, size);
    });
  };
  Fit fit = fit_in(lane, size);
  if (fit.run == nullptr) fit = find_elsewhere(size, stream);
  if (Block* block = use(fit)) return block;
  if (homes_.keeps_blocks_whole()) {
    if (Block* block = try_to(attempt, Tried::What::gather, [&] { return gather_on_one(lane, size); })) return block;
    // No device can give it alone.
    if (LakeBlock* run = best_fit(lane, size))
      if (Block* block = use({run, run->end()})) return block;
  }
  if (Block* block = try_to(attempt, Tried::What::map, [&] { return grow(lane, size); })) return block;
  // A driver that has less than it should have makes the budget smaller; a second plan may do with less new memory.
  for (int tries = 0; tries < 2; ++tries) {
    Block* block = try_to(attempt, Tried::What::gather, [&] {
      return carry_out(lane, size, [&] { return plan(map_, wish_for(lane, size), level_, tuning_); });
    });
    gatherer_.reap();
    if (block != nullptr) return block;
    if (attempt.tried.empty() || !attempt.tried.back().has_failed) break;
  }
  attempt.tried.push_back({Tried::What::gather, false});
  return nullptr;
}

Block* LakeSpace::spill(Attempt& attempt, Lane& lane) {
  const Bytes size = attempt.rounded;
  // Free memory that was spilled before and is large enough costs no driver call.
  if (LakeBlock* run = find_spilled(size, attempt.request.stream)) {
    Block* block = try_to(attempt, Tried::What::wait_on_device, [&] {
      waits_.let_wait(attempt.request.stream, *run);
      return map_.take_high(run, size);
    });
    if (block != nullptr) return block;
  }
  if (size > homes_.budget() + host_memory()) {  // no address need be looked for
    attempt.tried.push_back({Tried::What::spill, true});
    return nullptr;
  }
  // A device that has less than it should have makes the budget smaller; then the host has to give more.
  for (std::size_t tries = 0; tries <= homes_.count(); ++tries) {
    const Bytes known = homes_.budget();
    Block* block = try_to(attempt, Tried::What::spill, [&] {
      return carry_out(lane, size, [&] { return plan_spill(map_, wish_for(lane, size), level_, tuning_); });
    });
    gatherer_.reap();
    if (block != nullptr) return block;
    if (homes_.budget() == known) break;  // the host itself has none
  }
  return nullptr;
}

void LakeSpace::give_back(Block* block) {
  auto* mine = static_cast<LakeBlock*>(block);
  map_.count_unused(mine->size);
  if (mine->view != nullptr) {
    gatherer_.end_view(mine);
    return;
  }
  mine->state = BlockState::free;
  mine->freed_at = waits_.clock.now(mine->stream);
  map_.offer(mine);
}

void LakeSpace::release_everything() {
  gatherer_.wait_for_old_mappings();
  for (const auto& wholes : {spilled_chunks(map_), whole_chunks(map_)})
    for (const Part& part : wholes) waits_.clock.wait(part.run->freed());
  trim({0});
}

void LakeSpace::trim(Bytes keep) {
  map_.lanes().for_each([&](const Lane& lane) { waits_.clock.look(lane.stream); });
  gatherer_.reap();
  // By range, not by address alone: the addresses that the driver chose must not decide which chunk goes. From high to
  // low, because releasing a chunk leaves the lower part of its run where it is. Spilled memory goes first.
  for (std::vector<Part> wholes : {spilled_chunks(map_), whole_chunks(map_)}) {
    std::ranges::sort(wholes, [](const Part& a, const Part& b) {
      const bool is_same = a.chunk->range == b.chunk->range;
      return is_same ? a.chunk->address > b.chunk->address : a.chunk->range->serial < b.chunk->range->serial;
    });
    for (const Part& part : wholes) {
      const Bytes all = ledger_.held() + ledger_.spilled().now;
      if (all <= keep) break;
      // The mapping of a view that is over may still exist.
      if (part.chunk->size > all - keep || part.chunk->views > 0) continue;
      if (waits_.clock.has_passed(part.run->freed())) gatherer_.release(part);
    }
  }
  gatherer_.reap();
  map_.drop_bare_ranges();
  map_.lanes().shrink();
}

Outlook LakeSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  Outlook outlook;
  outlook.page = map_.granule();
  outlook.room = room_within(device_free);
  outlook.free_and_usable = ledger_.held() + ledger_.spilled().now - map_.used();
  const Bytes room = std::min(homes_.room(), map_.down(outlook.room));
  const Lane* lane = map_.lanes().known(attempt.request.stream, is_small(attempt.rounded));
  const Wish wish{*lane, attempt.rounded, room, can_await(), {}, is_known_passed()};
  const Bytes lacking = least_room(map_, wish, level_, tuning_);
  outlook.grows_from = attempt.rounded.excess_over(lacking);
  outlook.in_one_range =
      std::max(largest_plan(map_, wish, level_, tuning_, outlook.free_and_usable + room), largest_free());
  if (options_.may_spill) {
    // A host that refused although its figure is large enough would not have given it.
    Bytes with_host = outlook.in_one_range + map_.down(free_host_memory());
    for (const Part& part : spilled_chunks(map_)) with_host = with_host + part.chunk->size;
    if (with_host < attempt.rounded) outlook.in_one_range = with_host;
  }
  outlook.need = need_of(map_.up(attempt.rounded), lacking, lacking);
  Bytes movable{0};
  Bytes awaited{0};
  for (const Part& part : whole_chunks(map_)) {
    Bytes& sum = is_usable(wish, *part.run) ? movable : awaited;
    sum = sum + part.chunk->size;
  }
  const Bytes pinned = outlook.free_and_usable.excess_over(movable + awaited);
  outlook.advice = "of " + to_text(outlook.free_and_usable) + " that are free, " + to_text(movable) +
                   " lie in whole chunks that lake can move";
  if (awaited.count > 0)
    outlook.advice += ", " + to_text(awaited) +
                      " in whole chunks of streams that other streams cannot wait for now (they capture a graph, or "
                      "have ended with queued work)";
  outlook.advice += ", and " + to_text(pinned) +
                    " in chunks of which live buffers use a part, which cannot move; close some buffers, or ask for "
                    "less";
  return outlook;
}

}  // namespace memlake
