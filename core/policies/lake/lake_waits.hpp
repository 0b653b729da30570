#pragma once

// LakeWaits: decides when a free run may serve another stream than its own, and lets that stream or the host wait.

#include <cstdint>

#include "policies/lake/range.hpp"
#include "streams/reuse_rules.hpp"
#include "streams/stream_clock.hpp"

namespace memlake {

class LakeWaits {
 public:
  explicit LakeWaits(EventSource& events) : clock(events) {}

  /// Later work of `waiter` comes behind all work that may still use the free run. Counts the rule that allowed it.
  void let_wait(StreamId waiter, const LakeBlock& run);

  StreamClock clock;
  ReuseRules rules;
  std::uint64_t stream_waits = 0;
  std::uint64_t reused_by_event = 0;
  std::uint64_t reused_opportunistically = 0;
};

}  // namespace memlake
