#pragma once

// Attempt: the search for memory for one request, with a log of everything that was tried.

#include <vector>

#include "blocks/block_map.hpp"

namespace memlake {

struct Request {
  Bytes requested;
  StreamId stream;
};

/// One entry of that log.
struct Tried {
  enum class What {
    new_segment,      ///< new memory in one piece
    new_addresses,    ///< addresses without memory
    map,              ///< new memory, mapped at addresses that exist
    wait_for_events,  ///< the host waits
    release,          ///< cached memory, released to the driver
    wait_on_device,   ///< streams that own pending memory wait for those that use it
    gather,           ///< memory from elsewhere, moved or mapped a second time
    spill,            ///< host memory
  };
  What what;
  bool has_failed;  ///< the driver had no memory for it
};

struct Attempt {
  Request request;
  Bytes rounded;
  bool has_failed = false;  ///< the driver had no memory for the last try
  bool is_retry = false;    ///< released all cached memory, or (policy driver) waited for all streams, to try once more
  bool starts_over = false;  ///< a rung changed so much that the ladder begins again
  bool is_hopeless = false;  ///< a rung found that no later one can help
  std::vector<Tried> tried = {};

  /// Begins again at the first rung; the log is kept.
  void start_over() {
    has_failed = false;
    is_retry = false;
    starts_over = false;
    is_hopeless = false;
  }
};

}  // namespace memlake
