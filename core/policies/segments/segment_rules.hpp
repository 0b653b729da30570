#pragma once

// SegmentRules: the decisions of a policy that allocates blocks from segments. The rules change no memory: SegmentSpace
// asks them for a block, and on a miss for the steps of each rung, and executes each step.

#include <memory>
#include <optional>
#include <vector>

#include "policies/attempt.hpp"
#include "policies/graph_pool.hpp"
#include "policies/ladder.hpp"

namespace memlake {

/// The state of a space that its rules may read.
struct SegmentView {
  const BlockMap& blocks;
  Bytes held;
  Bytes device_total;
  Bytes limit;  ///< the most that may be held; the largest number if there is no limit

  /// How much more may be held.
  [[nodiscard]] Bytes room() const { return limit.excess_over(held); }
};

/// How new memory could have served a request.
struct Growth {
  Bytes page{1};          ///< new memory comes in multiples of this
  Bytes grows_from{0};    ///< free memory to which the new memory would have been added
  Bytes in_one_range{0};  ///< the largest contiguous range that would have resulted
  Bytes counted{0};       ///< bytes that the rules compare with the limit, in addition to the held memory
  Bytes from_driver{0};   ///< what the driver has to give
};

/// One instruction of the rules to their space.
struct Step {
  enum class Kind {
    take,            ///< `block` serves the request: cut it to size and return it
    new_segment,     ///< memory of `size` in one piece, for this request's stream
    new_expandable,  ///< addresses of `size` without memory, in pages of `page`
    map,             ///< memory for the first `size` bytes of the unmapped `block`
    release,         ///< the memory of `Climb::victims`: whole segments, or the whole pages of expandable ones
    next_rung,       ///< this rung can do no more
  };
  Kind kind;
  Block* block = nullptr;
  Bytes size = {0};
  Bytes page = {0};
  std::optional<std::uint64_t> serial = {};  ///< of a new segment; without it, the segment gets the next number
};

/// The progress of the space on one rung. The rules read it and choose victims; the space stores results.
struct Climb {
  Attempt& attempt;
  Rung rung;
  const BlockGroup& group;  ///< of the request
  int steps = 0;            ///< number of steps executed on this rung
  Block* block = nullptr;   ///< result of the last step: a new segment, a mapped block, an unmapped range
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

  /// The rungs to try on a miss.
  [[nodiscard]] virtual Ladder ladder() const = 0;
  /// The next step on a rung. `climb.attempt.has_failed`: the driver had no memory for the last step.
  virtual Step next(Climb& climb, const SegmentView& view) const = 0;

  /// How new memory could have served a refused request. `device_free`: the memory that the driver has left.
  [[nodiscard]] virtual Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const = 0;

  /// Whether the block is so much larger than the request that the rest becomes another block.
  [[nodiscard]] virtual bool splits(const Block& block, Bytes rounded) const = 0;

  /// Whether freed memory is kept for later requests.
  [[nodiscard]] virtual bool keeps_freed_memory() const { return true; }
  /// Whether all its segments are expandable.
  [[nodiscard]] virtual bool maps_its_memory() const { return false; }

  /// Its rules for the memory of a graph pool; null if there are none.
  [[nodiscard]] virtual std::unique_ptr<SegmentRules> for_graphs(std::shared_ptr<const GraphPool>) const {
    return nullptr;
  }

  /// Whether free memory that was not used for long is released before new memory is made.
  [[nodiscard]] virtual bool collects_garbage() const { return false; }
  /// The blocks that may be released for that, least recently used first.
  [[nodiscard]] virtual std::vector<const Block*> garbage(const BlockMap&) const { return {}; }
  /// Fills `victims` with all blocks whose memory can be released to the driver.
  virtual void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const = 0;
};

}  // namespace memlake
