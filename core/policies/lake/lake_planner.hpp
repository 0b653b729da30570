#pragma once

// The planner of a lake: decides which memory serves a request and where. It reads a map and changes nothing.

#include <functional>
#include <optional>
#include <vector>

#include "driver/aliasing.hpp"
#include "policies/lake/lake_map.hpp"
#include "policies/lake/lake_tuning.hpp"

namespace memlake {

/// The addresses for a request: in `hole`, from its high end, and in `run`, the free block right above the hole.
struct Place {
  Range* range = nullptr;
  LakeBlock* run = nullptr;   ///< null: the request uses no free block above the hole
  LakeBlock* hole = nullptr;  ///< null: no range has such a hole, so the lane needs another range

  [[nodiscard]] Bytes run_size() const { return run == nullptr ? Bytes{0} : run->size; }
};

/// One request, as the planner sees it.
struct Wish {
  const Lane& lane;  ///< of the request's stream and size class
  Bytes size;
  Bytes room;  ///< the new memory that the budget allows
  /// Whether other streams can wait for this stream now. They cannot while it captures a graph, or after it has ended
  /// with queued work. Empty: they can wait for every stream.
  std::function<bool(StreamId)> can_await = {};
  /// Whether the host may unmap a free run now without a wait. Empty: it may unmap every run.
  std::function<bool(const LakeBlock&)> has_passed = {};
  /// Whether it is known already that the run's stream has passed its free; without a driver call.
  std::function<bool(const LakeBlock&)> is_known_passed = {};
  /// The device on which all of the block must lie, by its number in the space; `room` is the room on it then, and
  /// nothing waits on the host. Empty: the block may lie on several.
  std::optional<std::size_t> on = {};
};

/// Whether the request may use the memory of a free run now, if necessary behind a wait on the device.
[[nodiscard]] bool is_usable(const Wish& wish, const LakeBlock& run);

/// How a request is met. The block consists, from low to high addresses, of `odd`, `borrowed` in reverse order, the
/// chunks that are moved or made, and the run of the place.
struct Plan {
  Place place;
  std::vector<Part> moved = {};        ///< whole chunks, which get their home here
  std::vector<Bytes> fresh = {};       ///< chunks to create
  std::vector<Bytes> spilled = {};     ///< chunks to create on the host
  std::vector<Part> borrowed = {};     ///< first parts of chunks, which get a second mapping here
  std::optional<Part> odd = {};        ///< a part that does not begin with its chunk; only the lowest piece can be one
  std::optional<std::size_t> on = {};  ///< the device of all memory of the block; empty: it may lie on several

  /// The level of aliasing that the second mappings need; moving chunks before their old mappings end needs `whole`.
  [[nodiscard]] Aliasing borrows() const;
};

/// The smallest free run of the lane that is large enough. A run that can grow counts as large as it could become, so
/// that it is spared as long as another run fits.
[[nodiscard]] LakeBlock* best_fit(const Lane& lane, Bytes size);
/// Where a request fits into free memory: in a run, up to an address.
struct Fit {
  LakeBlock* run = nullptr;  ///< null: nowhere
  Address end = {};          ///< of the block
};
/// The smallest run of which `size` bytes side by side lie on one device.
[[nodiscard]] Fit best_fit_on_one(const Lane& lane, Bytes size);
/// The device of a run, by its number in the space; empty if the run lies on several.
[[nodiscard]] std::optional<std::size_t> device_of(const LakeBlock& run);

/// The place where a request gets the most memory without moving any; see Place.
[[nodiscard]] Place find_place(const LakeMap& map, const Lane& lane, Bytes size);
/// The size of a hole that find_place() looks for: a chunk that is moved may be larger than the missing bytes.
[[nodiscard]] Bytes hole_for(const LakeMap& map, Bytes size);

/// The sizes of the chunks that a request for `size` bytes gets `total` bytes in. Their sum is `total`, rounded up.
[[nodiscard]] std::vector<Bytes> chunk_sizes(const LakeMap& map, const LakeTuning& tuning, Bytes total, Bytes size);

/// The chunks that lie entirely in free runs of devices' memory; those of `except` are left out.
[[nodiscard]] std::vector<Part> whole_chunks(const LakeMap& map, const LakeBlock* except = nullptr);
/// The chunks that lie entirely in free runs of the host's memory.
[[nodiscard]] std::vector<Part> spilled_chunks(const LakeMap& map);

/// How new memory serves a request: below the run of a place. Empty if the room is too small. Unless `uses_run`, all of
/// the block is new memory.
[[nodiscard]] std::optional<Plan> plan_growth(const LakeMap& map, const Wish& wish, const LakeTuning& tuning,
                                              bool uses_run = true);

/// How free memory, and as little new memory as possible, serves a request; empty if it cannot. It moves whole chunks
/// first. It uses parts of chunks only if the whole ones do not suffice and the level allows it.
[[nodiscard]] std::optional<Plan> plan(const LakeMap& map, const Wish& wish, Aliasing level, const LakeTuning& tuning);

/// A plan with memory of the host for the bytes that the devices lack. There is always such a plan.
[[nodiscard]] Plan plan_spill(const LakeMap& map, const Wish& wish, Aliasing level, const LakeTuning& tuning);

/// The largest request, at most `most`, in whole granules, for which plan() gives a plan.
[[nodiscard]] Bytes largest_plan(const LakeMap& map, Wish wish, Aliasing level, const LakeTuning& tuning, Bytes most);
/// The least room with which plan() gives a plan for the wish, at most the wish's size.
[[nodiscard]] Bytes least_room(const LakeMap& map, Wish wish, Aliasing level, const LakeTuning& tuning);

}  // namespace memlake
