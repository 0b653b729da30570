#pragma once

// SegmentRules: decide how a space that cuts blocks out of segments meets a request. They touch nothing: SegmentSpace
// asks them for a block, on a miss for the steps of each rung, and carries each step out.

#include <optional>
#include <vector>

#include "policies/attempt.hpp"
#include "policies/ladder.hpp"

namespace memlake {

/// What a space knows and its rules may ask for.
struct SegmentView {
  const BlockMap& blocks;
  Bytes held;
  Bytes device_total;
  Bytes limit;  ///< what may be held; the largest number if there is no limit

  /// What the limit leaves.
  [[nodiscard]] Bytes room() const { return limit > held ? limit - held : Bytes{0}; }
};

/// What new memory could have done for a request.
struct Growth {
  Bytes page{1};          ///< it comes in multiples of this
  Bytes grows_from{0};    ///< free memory that it would have been added to
  Bytes in_one_range{0};  ///< the largest piece that there would have been
};

/// One instruction of the rules to their space.
struct Step {
  enum class Kind {
    take,            ///< `block` serves the request: cut it to size and hand it out
    new_segment,     ///< memory of `size` in one piece, for this request's stream
    new_expandable,  ///< addresses of `size`, nothing behind them, in pages of `page`
    map,             ///< memory behind the first `size` bytes of the unmapped `block`
    release,         ///< the memory of `Climb::victims`: whole segments, or the whole pages of expandable ones
    next_rung,       ///< nothing more can be done here
  };
  Kind kind;
  Block* block = nullptr;
  Bytes size = {0};
  Bytes page = {0};
  std::optional<std::uint64_t> serial = {};  ///< of a new segment, if it is not to count as the youngest
};

/// How far the space has come on one rung. The rules read it and choose victims, the space fills in results.
struct Climb {
  Attempt& attempt;
  Rung rung;
  const BlockGroup& group;  ///< of the request
  int steps = 0;            ///< that were carried out on this rung
  Block* block = nullptr;   ///< what the last step gave: a new segment, a mapped block, an unmapped range
  std::vector<Block*> victims = {};
  bool is_enough = false;  ///< whether releasing them makes room for the request
};

class SegmentRules {
 public:
  SegmentRules() = default;
  SegmentRules(const SegmentRules&) = delete;
  SegmentRules& operator=(const SegmentRules&) = delete;
  virtual ~SegmentRules() = default;

  [[nodiscard]] virtual Bytes round(Bytes requested) const = 0;
  [[nodiscard]] virtual bool is_small(Bytes rounded) const = 0;

  /// A free block for the request, or null: the fast path.
  [[nodiscard]] virtual Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const = 0;

  /// What to try on a miss.
  [[nodiscard]] virtual Ladder ladder() const = 0;
  /// The next step on a rung. `climb.attempt.has_failed`: the last step could not be done.
  virtual Step next(Climb& climb, const SegmentView& view) const = 0;

  /// What new memory could have done for a request that was refused. `device_free`: what the driver can still give.
  [[nodiscard]] virtual Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const = 0;

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
