#pragma once

// Failure: why a request found no memory, as far as the pool knows.

#include <utility>
#include <vector>

#include "policies/segments/segment_rules.hpp"

namespace memlake {

struct Failure {
  Request request;
  Bytes rounded;
  Bytes limit;
  Bytes device_total;
  Bytes held;
  Bytes held_on_host;  ///< beside that
  Bytes live;          ///< blocks of callers, with slack
  Bytes pending;       ///< freed, but awaited by some stream
  Bytes free;          ///< cached, in any group and of any stream
  Bytes free_for_it;   ///< of that, what this request could have been served from: its stream and group
  Bytes largest_free;  ///< the largest free block of any stream
  std::vector<std::pair<StreamId, Bytes>> pending_on;  ///< what waits for which stream
  std::vector<Tried> tried;
  bool has_no_addresses = false;  ///< not memory was missing, but a range of addresses to map it to
};

}  // namespace memlake
