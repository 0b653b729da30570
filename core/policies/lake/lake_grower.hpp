#pragma once

// LakeGrower: adds new memory below a run. Creating memory takes longer than anything else that a pool does, so the
// grower decides with the pool's lock, creates without it, and settles with it. Threads that are served from memory
// that exists need not wait.

#include <optional>
#include <vector>

#include "policies/lake/lake_homes.hpp"
#include "policies/lake/lake_map.hpp"
#include "policies/lake/lake_planner.hpp"
#include "supply/unlocked_scope.hpp"

namespace memlake {

class LakeGrower {
 public:
  /// All must outlive it.
  LakeGrower(LakeMap& map, LakeHomes& homes, const LakeTuning& tuning) : map_(map), homes_(homes), tuning_(tuning) {}

  /// Carries a plan of plan_growth() out; all or nothing. Until the new chunks are mapped, their addresses and the run
  /// of the place are claimed and the memory is promised, so that no other thread plans with them.
  LakeBlock* grow(const Plan& plan, Lane& lane, Bytes size, const Devices& users, Unlocker* unlocker);

  /// A range of bare addresses for a lane; see LakeTuning for its size.
  Range& add_range(Lane& lane, Bytes at_least);

 private:
  /// Chunks and mappings that the map does not have yet.
  struct Made {
    std::vector<std::unique_ptr<LakeChunk>> chunks;
    std::vector<Mapping> mappings;
  };

  /// Chunks below `top`, mapped and accessible. Reads nothing that the lock guards. `failed_on`: the home whose driver
  /// had no memory.
  [[nodiscard]] Made make(const std::vector<Making>& makings, const Devices& users, const Range& range, Address top,
                          std::size_t& failed_on) const;
  /// `usual` bytes of addresses, or as many as there are, halved as often as necessary; not less than `at_least`.
  [[nodiscard]] std::shared_ptr<Reservation> reserve(Bytes at_least, Bytes usual) const;
  /// Makes the place's highest `size` bytes and its run invisible to other requests; returns the former.
  LakeBlock* claim(const Place& place, Bytes size);
  /// The reverse, after a failure.
  void unclaim(LakeBlock* claimed, LakeBlock* run);

  LakeMap& map_;
  LakeHomes& homes_;
  const LakeTuning& tuning_;
};

}  // namespace memlake
