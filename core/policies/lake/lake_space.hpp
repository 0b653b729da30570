#pragma once

// LakeSpace: memory that moves. While there is room, it places blocks as expandable segments do, in chunks whose size
// follows from the blocks. At its budget it releases nothing: it moves free chunks to where a request needs them.
// docs/concepts/how_lake_decides.md describes the steps.
//
// LakeMap has the state, lake_planner.hpp decides, LakeGrower and LakeGatherer act. This class tries them in the order
// of its ladder and answers for the policy.

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "policies/lake/lake_gatherer.hpp"
#include "policies/lake/lake_grower.hpp"
#include "policies/lake/lake_homes.hpp"
#include "policies/lake/lake_map.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/lake/lake_tuning.hpp"
#include "policies/lake/lake_waits.hpp"
#include "policies/space.hpp"

namespace memlake {

class LakeSpace final : public Space,
                        StreamReuse,
                        SeveralOwners,
                        Crowding,
                        SeveralPlaces,
                        PeerAccess,
                        ChunkExports,
                        PolicyCounters {
  friend struct test::LakeSabotage;  // breaks it, so that tests see what check() reports

 public:
  /// All devices must reach each other's memory; addresses are the first one's. Error(config) if memory of the host is
  /// wanted and a device cannot map it.
  LakeSpace(std::vector<std::shared_ptr<Device>> devices, const LakeOptions& options, EventSource& events,
            std::shared_ptr<Budget> budget, const LakeTuning& tuning = {});
  ~LakeSpace() override;

  [[nodiscard]] Bytes round(Bytes requested) const override { return requested.rounded_up({512}); }
  Block* take(Bytes rounded, StreamId stream) override;
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block& block, Bytes rounded) const override { return block.size == rounded; }
  void trim(Bytes keep) override;
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override { return map_.lanes().range_count(); }
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId stream) const override;
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;
  [[nodiscard]] std::uint64_t generation(const Block& block) const override;
  void check(InvariantReport& report) const override;
  void set_observer(SupplyObserver* observer) override { map_.watch.set(observer); }
  [[nodiscard]] SmallPart small_part() const override;

  /// Of all ranges.
  [[nodiscard]] Bytes reserved_addresses() const { return map_.lanes().reserved_addresses(); }
  /// The level of aliasing in force. It falls if the driver refuses a second mapping.
  [[nodiscard]] Aliasing aliasing() const { return level_; }

 private:
  // Facets.
  [[nodiscard]] ReuseRules reuse_rules() const override { return waits_.rules; }
  void set_reuse_rules(const ReuseRules& rules) override { waits_.rules = rules; }
  void for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const override;
  [[nodiscard]] bool is_crowded() const override;
  void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const override;
  void change_access(const Devices& added, const Devices& removed) override;
  [[nodiscard]] ExportedRange export_chunks(const Block& block) const override;
  [[nodiscard]] bool makes_exportable_chunks() const override { return homes_.is_exportable(); }
  [[nodiscard]] std::vector<Counter> counters() const override;

  [[nodiscard]] bool is_small(Bytes size) const { return size <= tuning_.largest_small; }
  [[nodiscard]] Wish wish_for(const Lane& lane, Bytes size);
  /// Answers whether other streams can wait for a stream. Asks the driver once per stream at most.
  [[nodiscard]] std::function<bool(StreamId)> can_await() const;
  [[nodiscard]] std::function<bool(const LakeBlock&)> is_known_passed() const;
  /// Whether a request of `stream` may use the run now, if necessary behind a wait on the device.
  [[nodiscard]] bool can_use(const LakeBlock& run, StreamId stream) const {
    return run.stream == stream || waits_.clock.is_known_passed(run.freed()) ||
           events_.progress().can_record(run.stream);
  }
  /// The lane of another stream whose memory may serve the stream before the space grows; null if there is none.
  [[nodiscard]] const Lane* shared_lane_of(StreamId owner, StreamId stream) const;
  /// A run of another stream that the program has ordered before later work of this one, or waited for. Memory of a
  /// stream that only happens to have passed is left to it while there is room: cut into pieces by others, it would
  /// have to be made anew.
  [[nodiscard]] Fit find_ordered(Bytes size, StreamId stream) const;
  /// A run of another stream that no request has named for long, and that has no work left. Asks the driver about a few
  /// streams, in turn.
  [[nodiscard]] Fit find_unused(Bytes size, StreamId stream);
  /// In a run of the stream's other lane, or of another stream.
  [[nodiscard]] Fit find_elsewhere(Bytes size, StreamId stream) const;
  [[nodiscard]] LakeBlock* find_spilled(Bytes size, StreamId stream) const;

  /// What `act` gives; null if the driver had no memory for it, which is noted in the attempt.
  template <class Act>
  Block* try_to(Attempt& attempt, Tried::What what, Act&& act);
  Block* grow(Lane& lane, Bytes size);
  /// New memory such that all of the block lies on one device; null if no device has room for it.
  Block* grow_on_one(Lane& lane, Bytes size);
  /// Free memory and new memory of one device, side by side; null if no device has enough of both together.
  Block* gather_on_one(Lane& lane, Bytes size);
  /// Where the request fits into free memory of the lane; on one device, if blocks are kept whole.
  [[nodiscard]] Fit fit_in(const Lane& lane, Bytes size) const {
    if (homes_.keeps_blocks_whole()) [[unlikely]]
      return best_fit_on_one(lane, size);
    LakeBlock* run = best_fit(lane, size);
    return run == nullptr ? Fit{} : Fit{run, run->end()};
  }
  Block* take(const Fit& fit, Bytes size);
  /// By every means that the budget leaves.
  Block* gather(Attempt& attempt, Lane& lane);
  /// Carries out the plan that `make_plan` gives; null if it gives none. If the driver refuses a second mapping, the
  /// level falls, and the next plan does without.
  template <class MakePlan>
  Block* carry_out(Lane& lane, Bytes size, MakePlan&& make_plan);
  /// With memory of the host for the bytes that the devices lack.
  Block* spill(Attempt& attempt, Lane& lane);

  LakeOptions options_;
  const LakeTuning tuning_;
  Aliasing level_;
  LakeHomes homes_;
  LakeMap map_;
  LakeWaits waits_;
  LakeGrower grower_;
  LakeGatherer gatherer_;
  std::size_t next_unused_ = 0;  // where find_unused() goes on
};

}  // namespace memlake
