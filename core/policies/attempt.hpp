#pragma once

// Attempt: the search for memory on behalf of one request, with a log of everything that was tried.

#include <vector>

#include "blocks/block_map.hpp"

namespace memlake {

struct Request {
  Bytes requested;
  StreamId stream;
};

/// One thing that was tried for a request: an entry of a log.
struct Tried {
  enum class What {
    new_segment,      ///< new memory in one piece
    new_addresses,    ///< addresses with nothing behind them
    map,              ///< new memory behind addresses
    wait_for_events,  ///< in the host
    release,          ///< cached memory went back to the driver
    wait_on_device,   ///< streams that own pending memory wait for those that use it
    gather,           ///< memory from elsewhere, moved or mapped a second time
    spill,            ///< memory of the host
  };
  What what;
  bool has_failed;  ///< the driver had no memory for it
};

struct Attempt {
  Request request;
  Bytes rounded;
  bool has_failed = false;   ///< the driver had no memory for the last try
  bool is_retry = false;     ///< everything cached was given back before
  bool starts_over = false;  ///< a rung changed so much that the ladder begins again
  bool is_hopeless = false;  ///< a rung found that no later one can help
  std::vector<Tried> tried = {};

  /// The same request from the first rung; the log goes on.
  void start_over() {
    has_failed = false;
    is_retry = false;
    starts_over = false;
    is_hopeless = false;
  }
};

}  // namespace memlake
