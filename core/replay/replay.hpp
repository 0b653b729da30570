#pragma once

// Replays a trace against a pool, at native speed.

#include <cstdint>
#include <optional>
#include <span>

#include "pool/pool.hpp"
#include "replay/trace_events.hpp"

namespace memlake {

/// The rows of a trace, as columns of equal length.
struct TraceColumns {
  enum Op : std::uint8_t {
    allocate = 0,
    free = 1,
    record_stream = 2,
    event_done = 3,
    step = 4,
    synchronise = 5,
    empty_cache = 6
  };
  std::span<const std::uint8_t> op;
  std::span<const std::uint32_t> id;
  std::span<const std::uint64_t> bytes;
  std::span<const std::uint8_t> stream;
};

struct ReplayOutcome {
  std::optional<std::uint64_t> failed_row;  ///< the first allocation that found no memory
  std::uint64_t rows = 0;                   ///< how many were replayed
  double cpu_seconds = 0;                   ///< of the replaying thread, the policy and its driver calls
};

/// Runs the rows in order; stops at the first allocation that fails unless `goes_on`.
ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, bool goes_on);

}  // namespace memlake
