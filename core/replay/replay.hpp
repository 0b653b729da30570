#pragma once

// Replays a trace against a pool, at native speed.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driver/counting_driver.hpp"
#include "pool/pool.hpp"
#include "replay/moment.hpp"
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
    empty_cache = 6,
    free_on = 7,  ///< on another stream than the one it was allocated on
    trim = 8,
    preallocate = 9,
    release_pool = 10,  ///< the last graph gives a graph pool up; `bytes`: 1 if its memory was released at once
  };
  std::span<const std::uint8_t> op;
  std::span<const std::uint32_t> id;
  std::span<const std::uint64_t> bytes;
  std::span<const std::uint16_t> stream;
  std::span<const std::uint32_t> pool = {};  ///< the graph pool of each row, 0 for none; empty: no row has one
};

/// The largest allocated and the largest held memory from before `row` to before the row of the next sample.
struct Sample {
  std::uint64_t row;
  Bytes allocated;
  Bytes held;
  double driver_us;  ///< modelled driver time before `row`
};

/// A request of the trace that found no memory, and why.
struct RefusedRow {
  std::uint64_t row = 0;
  Shortage shortage;
};

struct ReplayOutcome {
  std::optional<RefusedRow> first_failure;
  std::uint64_t rows = 0;        ///< number of rows that were replayed
  double cpu_seconds = 0;        ///< of the replaying thread, the policy and its driver calls
  double longest_us = 0;         ///< modelled driver time of the request that took the most
  std::vector<Sample> timeline;  ///< one sample per rows_per_sample rows, and the state at the end
  Moments moments;               ///< those that were asked for and reached
};

struct ReplayOptions {
  bool goes_on = false;                         ///< whether to continue after a failed allocation
  std::uint64_t rows_per_sample = 0;            ///< 0: no timeline
  std::uint64_t first_sample = 0;               ///< the row of the first sample
  bool takes_in_advance = true;                 ///< whether to preallocate; false for a policy without that capability
  std::shared_ptr<Device> device = {};          ///< for graph pools; null: their requests are served like all others
  std::span<const std::uint64_t> moments = {};  ///< rows after which the blocks are noted, in ascending order
  const CountingDriver* calls = nullptr;        ///< models the driver time of each request; null: none is modelled
};

ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, const ReplayOptions& options);

}  // namespace memlake
