#pragma once

// Replays a trace against a pool, at native speed.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

/// What the pool looked like when a request found no memory.
struct OutOfMemoryPicture {
  std::uint64_t row = 0;
  Bytes requested;
  Bytes held;
  Bytes allocated;  ///< live blocks with slack
  Bytes pending;    ///< freed, but awaited by another stream
  Bytes free;       ///< cached, in any group and of any stream
  Bytes largest_free;
};

struct Sample {
  std::uint64_t row;
  Bytes allocated;
  Bytes held;
};

struct ReplayOutcome {
  std::optional<OutOfMemoryPicture> first_failure;
  std::uint64_t rows = 0;        ///< how many were replayed
  double cpu_seconds = 0;        ///< of the replaying thread, the policy and its driver calls
  std::vector<Sample> timeline;  ///< one sample each so many rows, and one at the end
};

struct ReplayOptions {
  bool goes_on = false;               ///< past a failed allocation, instead of ending there
  std::uint64_t rows_per_sample = 0;  ///< 0: no timeline
};

ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, const ReplayOptions& options);

}  // namespace memlake
