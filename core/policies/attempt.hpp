#pragma once

// Attempt: the search for memory on behalf of one request, with a log of everything that was tried.

#include <optional>
#include <vector>

#include "blocks/block_map.hpp"

namespace memlake {

struct Request {
  Bytes requested;
  StreamId stream;
};

/// One thing to do.
struct Step {
  enum class Kind {
    take,             ///< `block` serves the request: cut it to size and hand it out
    new_segment,      ///< memory of `size` in one piece, for this request's stream
    new_expandable,   ///< addresses of `size`, nothing behind them, in pages of `page`
    map,              ///< memory behind the first `size` bytes of the unmapped `block`
    wait_for_events,  ///< all of them, in the host
    release,          ///< the memory of `Attempt::victims`: whole segments, or the whole pages of expandable ones
    fail,             ///< there is no way
    wait_on_device,   ///< streams that own pending memory wait for those that use it
    gather,           ///< memory from elsewhere, moved or mapped a second time
    spill,            ///< memory of the host
  };
  Kind kind;
  Block* block = nullptr;
  Bytes size = {0};
  Bytes page = {0};
  std::optional<std::uint64_t> serial = {};  ///< of a new segment, if it is not to count as the youngest
};

/// One step that was tried for a request.
struct Tried {
  Step::Kind kind;
  bool has_failed;  ///< the driver had no memory for it
};

/// How far the search for memory has come, for one request. The policy reads and moves it, the executor fills in
/// results.
struct Attempt {
  Request request;
  Bytes rounded;
  const BlockGroup* group = nullptr;
  int rung = 0;             ///< of the policy's own ladder
  Block* block = nullptr;   ///< what the last step gave: a new segment, a mapped block, an unmapped range
  bool has_failed = false;  ///< the last step could not be done
  bool is_retry = false;    ///< everything cached was given back before
  std::vector<Block*> victims = {};
  std::vector<Tried> tried = {};  ///< filled by the executor, for the error message
};

}  // namespace memlake
