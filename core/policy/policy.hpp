#pragma once

// Policy: decides how a request is met and touches nothing. The pool asks it for a block; on a miss it asks for the
// next step until the policy takes a block or gives up, and its executor carries each step out.

#include <optional>
#include <vector>

#include "blocks/block_map.hpp"

namespace memlake {

struct Request {
  Bytes requested;
  StreamId stream;
};

/// What the pool knows and a policy may ask for.
struct PoolView {
  const BlockMap& blocks;
  Bytes held;
  Bytes device_total;
  Bytes limit;  ///< what may be held; the largest number if there is no limit
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

class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  [[nodiscard]] virtual Bytes round(Bytes requested) const = 0;
  [[nodiscard]] virtual bool is_small(Bytes rounded) const = 0;

  /// A free block for the request, or null: the fast path.
  [[nodiscard]] virtual Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const = 0;

  /// What to do next on a miss. The first call of an attempt has rung 0.
  virtual Step next(Attempt& attempt, const PoolView& view) const = 0;

  /// Is a block so much larger than the request that its rest becomes a block of its own?
  [[nodiscard]] virtual bool splits(const Block& block, Bytes rounded) const = 0;

  /// Does freed memory stay for the next request?
  [[nodiscard]] virtual bool keeps_freed_memory() const { return true; }
  /// Whether all its segments are expandable.
  [[nodiscard]] virtual bool maps_its_memory() const { return false; }

  /// Fills `victims` with everything that can be given back to the driver.
  virtual void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const = 0;
};

}  // namespace memlake
