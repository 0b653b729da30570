#include "policies/direct/direct_rules.hpp"

#include <algorithm>

namespace memlake {

namespace {

// What cuMemAlloc really takes from the device: 512-byte steps, from 1 MiB on 2 MiB steps.
constexpr Bytes kSmallStep{512};
constexpr Bytes kLargeStep = MiB * 2;

// Nothing is ever cached, so releasing it only means that the request was tried a second time.
constexpr Rung kLadder[] = {Rung::grow, Rung::wait_for_events, Rung::release_cached, Rung::grow};

}  // namespace

Bytes DirectRules::round(Bytes requested) const {
  return requested.rounded_up(requested < MiB ? kSmallStep : kLargeStep);
}

bool DirectRules::is_small(Bytes rounded) const { return rounded < MiB; }

Block* DirectRules::find(Bytes, StreamId, BlockGroup&) const { return nullptr; }

Ladder DirectRules::ladder() const { return kLadder; }

Step DirectRules::next(Climb& climb, const SegmentView& view) const {
  if (climb.block != nullptr) return {.kind = Step::Kind::take, .block = climb.block};
  if (climb.rung == Rung::release_cached) climb.attempt.is_retry = true;
  const bool is_over_limit = view.held + climb.attempt.rounded > view.limit;
  if (climb.rung != Rung::grow || climb.attempt.has_failed || is_over_limit) return {.kind = Step::Kind::next_rung};
  return {.kind = Step::Kind::new_segment, .size = climb.attempt.rounded};
}

Growth DirectRules::growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const {
  const Bytes step = attempt.rounded < MiB ? kSmallStep : kLargeStep;
  return {.page = step,
          .in_one_range = std::min(view.room(), device_free).rounded_down(step),
          .counted = attempt.rounded,
          .from_driver = attempt.rounded};
}

bool DirectRules::splits(const Block&, Bytes) const { return false; }

void DirectRules::choose_everything(const BlockMap&, std::vector<Block*>& victims) const { victims.clear(); }

}  // namespace memlake
