#pragma once

// LakeGatherer: carries a plan out, all or nothing. All driver calls of a plan come before the first change of a block.
// Until then the new mappings are owners on the stack, so a call that fails undoes them. Without aliasing, chunks leave
// their old addresses first; a chunk that then cannot be mapped goes back to the driver, which loses only free memory.

#include <cstdint>
#include <vector>

#include "policies/lake/lake_grower.hpp"
#include "policies/lake/lake_homes.hpp"
#include "policies/lake/lake_map.hpp"
#include "policies/lake/lake_planner.hpp"
#include "policies/lake/lake_waits.hpp"

namespace memlake {

class LakeGatherer {
 public:
  /// All must outlive it.
  LakeGatherer(LakeMap& map, LakeHomes& homes, LakeWaits& waits, LakeGrower& grower)
      : map_(map), homes_(homes), waits_(waits), grower_(grower) {}

  /// The block of the plan, in use. At the level `none` the host waits until the streams of the moved chunks have
  /// passed; otherwise a chunk is mapped at its new address before its old mapping ends.
  LakeBlock* carry_out(Plan plan, Lane& lane, Bytes size, Aliasing level, const Devices& users);
  /// Takes back a block that shows parts of other chunks.
  void end_view(LakeBlock* block);
  /// Unmaps a free whole chunk and releases it to the driver. pre: its stream has passed, and no view shows it.
  void release(const Part& whole);

  /// Removes the old mappings whose streams have passed. Their addresses become holes.
  void reap();
  /// The host waits until all old mappings can go.
  void wait_for_old_mappings();
  /// The host waits until all old mappings can go and all free memory can be used; false if there was nothing to wait
  /// for.
  bool wait_for_free_memory();

  [[nodiscard]] std::uint64_t moved_chunks() const { return moved_chunks_; }
  [[nodiscard]] std::uint64_t borrowed_pieces() const { return borrowed_pieces_; }

 private:
  /// Mappings that wait for their stream before they can go.
  struct Retired {
    std::vector<Mapping> mappings;
    std::vector<LakeChunk*> viewed;  ///< chunks that then have one view less
    LakeBlock* dead;
    StreamClock::Freed freed;
  };
  /// The mappings of a plan, which no block uses yet.
  struct Mapped {
    std::vector<Mapping> homes;  ///< one per chunk
    std::vector<View::Piece> pieces;
    Address bottom_of_chunks;
    Address lowest;
  };

  /// The chunk's old address becomes a hole when its stream has passed.
  void leave(const Part& whole);
  /// The chunk's old address becomes a hole now, because its stream has passed: afterwards the chunk is mapped nowhere.
  void vacate(const Part& whole);
  void forget(LakeChunk& chunk);
  /// Makes the driver calls of a plan: the chunks, the borrowed parts and the odd part, from high to low addresses.
  [[nodiscard]] Mapped map_all(const Plan& plan, const std::vector<LakeChunk*>& chunks, const Devices& users) const;
  /// Cuts the parts that the plan takes from free runs.
  void cut_parts(const Plan& plan, Bytes size, Mapped& mapped, bool leaves_homes);
  /// The block of a plan with borrowed parts: those at its lower end, its own memory above them.
  LakeBlock* show(const Plan& plan, LakeBlock* block, Mapped mapped, Bytes size);
  /// The block of a plan with memory on the host: the high end of what is there now.
  LakeBlock* take_mixed(const Plan& plan, LakeBlock* block, Bytes size);

  LakeMap& map_;
  LakeHomes& homes_;
  LakeWaits& waits_;
  LakeGrower& grower_;
  std::vector<Retired> retired_;
  std::uint64_t moved_chunks_ = 0;
  std::uint64_t borrowed_pieces_ = 0;
};

}  // namespace memlake
