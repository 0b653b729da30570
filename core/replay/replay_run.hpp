#pragma once

// A whole replay: its own device, the events of the trace, a pool under a policy, and the figures of all three.

#include <string_view>
#include <utility>
#include <vector>

#include "driver/library.hpp"
#include "policies/registry/registry.hpp"
#include "replay/replay.hpp"

namespace memlake {

struct ReplaySettings {
  ChosenPolicy policy;
  Bytes capacity;  ///< of the device
  Bytes limit = Budget::kUnlimited;
  EventMode events = EventMode::immediate;
  std::uint64_t lag = 0;  ///< rows, for EventMode::lag
  bool goes_on = false;
  std::uint64_t rows_per_sample = 0;
  std::uint64_t first_sample = 0;
  std::span<const std::uint64_t> moments = {};
};

struct ReplayReport {
  PoolStats stats;
  ReplayOutcome outcome;
  std::vector<std::pair<const char*, std::uint64_t>> calls;  ///< by CUDA name; only those that were made
  double modelled_us = 0;
  std::uint64_t host_waits = 0;
  std::vector<Counter> counters;  ///< figures that only this policy has
};

/// Replays a trace on an emulated device that exists for this call. `emulator` must be the emulator's library.
ReplayReport run_replay(Library& emulator, const TraceColumns& trace, const ReplaySettings& settings);

}  // namespace memlake
