#include "policies/direct/direct_rules.hpp"

namespace memlake {

namespace {

// What cuMemAlloc really takes from the device: 512-byte steps, from 1 MiB on 2 MiB steps.
constexpr Bytes kSmallStep{512};
constexpr Bytes kLargeStep = MiB * 2;

enum Rung : int { kAllocate, kWait, kAllocateAgain, kGiveUp };

}  // namespace

Bytes DirectRules::round(Bytes requested) const {
  return requested.rounded_up(requested < MiB ? kSmallStep : kLargeStep);
}

bool DirectRules::is_small(Bytes rounded) const { return rounded < MiB; }

Block* DirectRules::find(Bytes, StreamId, BlockGroup&) const { return nullptr; }

Step DirectRules::next(Attempt& attempt, const PoolView& view) const {
  if (attempt.block != nullptr) return {.kind = Step::Kind::take, .block = attempt.block};
  const bool is_over_limit = view.held + attempt.rounded > view.limit;
  switch (attempt.rung++) {
    case kAllocate:
    case kAllocateAgain:
      if (!is_over_limit) return {.kind = Step::Kind::new_segment, .size = attempt.rounded};
      return next(attempt, view);
    case kWait:
      attempt.is_retry = true;
      return {.kind = Step::Kind::wait_for_events};
    default:
      return {.kind = Step::Kind::fail};
  }
}

bool DirectRules::splits(const Block&, Bytes) const { return false; }

void DirectRules::choose_everything(const BlockMap&, std::vector<Block*>& victims) const { victims.clear(); }

}  // namespace memlake
