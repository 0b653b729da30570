#pragma once

// LakeSpace: memory that moves. With room it places blocks as expandable segments do, in larger chunks and with finer
// steps. At its budget it gives nothing back: it moves chunks that are wholly free to where a request needs them, and
// borrows the free first parts of others by mapping them a second time. docs/concepts/how_lake_decides.md tells how.
//
// Deciding (lake_plan.cpp) reads and touches nothing; acting (lake_executor.cpp) makes all driver calls of a plan
// before it changes a block, so a call that fails leaves everything as it was.

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "blocks/block_map.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/lake/range.hpp"
#include "policies/space.hpp"
#include "streams/stream_clock.hpp"

namespace memlake {

struct LakeCounters {
  std::uint64_t moved_chunks = 0;
  std::uint64_t borrowed_pieces = 0;
  std::uint64_t recreated_chunks = 0;
  std::uint64_t stream_waits = 0;
  // Memory of one stream for a request of another, by the rule that allowed it; behind a wait: stream_waits.
  std::uint64_t reused_by_event = 0;
  std::uint64_t reused_opportunistically = 0;
};

namespace test {
struct LakeSabotage;
}

class LakeSpace final : public Space, StreamReuse, SeveralOwners, Crowding, SeveralPlaces, PeerAccess, PolicyCounters {
  friend struct test::LakeSabotage;  // breaks it, so that tests see what check() reports

 public:
  /// All devices must reach each other's memory; addresses are the first one's. Error(config) if memory of the host is
  /// wanted and a device cannot map it.
  LakeSpace(std::vector<std::shared_ptr<Device>> devices, const LakeOptions& options, EventSource& events,
            std::shared_ptr<Budget> budget);
  ~LakeSpace() override;

  [[nodiscard]] Bytes round(Bytes requested) const override;
  Block* take(Bytes rounded, StreamId stream) override;
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block& block, Bytes rounded) const override { return block.size == rounded; }
  void trim(Bytes keep) override;
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override;
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId stream) const override;
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;
  [[nodiscard]] std::uint64_t generation(const Block& block) const override;
  void check(InvariantReport& report) const override;

  /// Of all ranges.
  [[nodiscard]] Bytes reserved_addresses() const;

 private:
  // Facets.
  [[nodiscard]] ReuseRules reuse_rules() const override { return rules_; }
  void set_reuse_rules(const ReuseRules& rules) override { rules_ = rules; }
  void for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const override;
  [[nodiscard]] bool is_crowded() const override;
  void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const override;
  void change_access(const Devices& added, const Devices& removed) override;
  [[nodiscard]] std::vector<Counter> counters() const override;

  /// One device, or the host if all memory lies there, and what is made on it.
  struct Home {
    Bytes total;
    Bytes most;  ///< what can be held there, as far as is known: the driver may have less than `total` to give
  };
  /// Where new memory goes: into `hole`, from its high end; `run` is the free block right above it, or null.
  struct Place {
    Range* range;
    LakeBlock* run;
    LakeBlock* hole;
  };
  /// How a request is met at the budget.
  struct Plan {
    Place place;
    std::vector<Part> moved;          ///< whole chunks
    LakeChunk* recreated = nullptr;   ///< of these: too large by far, so it is made anew as two
    std::vector<Bytes> fresh = {};    ///< chunks to create
    std::vector<Bytes> spilled = {};  ///< the same on the host
    std::vector<Part> borrowed = {};  ///< first parts of chunks
    std::optional<Part> odd = {};     ///< a part that does not begin with its chunk; only the lowest piece can be one
  };
  /// One chunk that will be made, and on what.
  struct Making {
    Bytes size;
    std::size_t on;  ///< number of the home
  };
  /// What is made outside the lock, and not the pool's yet.
  struct Made {
    std::vector<std::unique_ptr<LakeChunk>> chunks;
    std::vector<Mapping> mappings;
  };
  /// Mappings that wait for their stream before they can go.
  struct Retired {
    std::vector<Mapping> mappings;
    std::vector<LakeChunk*> viewed;  ///< chunks that have one view less then
    LakeBlock* dead;
    StreamClock::Freed freed;
  };

  // Blocks (lake_blocks.cpp).
  LakeBlock* make_block(Range& range, AddressRange covered, BlockState state);
  void destroy(LakeBlock* block);
  /// Cuts after `size` bytes; returns the high part. Neither is indexed.
  LakeBlock* cut(LakeBlock* block, Bytes size);
  void index(LakeBlock* block);
  /// Joins a free block with its neighbours and indexes it. pre: it is not indexed.
  void offer(LakeBlock* block) {
    if (ledger_.spilled().now.count != 0) [[unlikely]]
      return offer_in_parts(block);
    block->is_spilled = false;
    index(merge(block));
  }
  /// The same for a block whose memory may lie on devices and on the host.
  void offer_in_parts(LakeBlock* block);
  void unindex(LakeBlock* block);
  /// The block takes in the one above it. pre: neither is indexed.
  void swallow_above(LakeBlock* block);
  /// Joins it with neighbours in the same state, if it is free or unmapped; free memory of devices with such only. pre:
  /// it is not indexed; they are.
  LakeBlock* merge(LakeBlock* block);
  /// Makes a part of an indexed free block a block of its own, which is not indexed.
  LakeBlock* isolate(LakeBlock* block, AddressRange part);
  LakeBlock* take_high(LakeBlock* block, Bytes size);

  // Looking around (lake_plan.cpp).
  Lane& lane_of(StreamId stream, bool is_small);
  [[nodiscard]] Lane* known_lane(StreamId stream, bool is_small) const;
  [[nodiscard]] static LakeBlock* best_fit(const Lane& lane, Bytes size);
  [[nodiscard]] LakeBlock* find(Bytes size, StreamId stream) const;
  [[nodiscard]] LakeBlock* find_elsewhere(Bytes size, StreamId stream) const;
  /// A run of another stream that the program has ordered before later work of this one, or waited for. Memory of a
  /// stream that only happens to have passed is left to it while there is room: cut into pieces by others, it would
  /// have to be made anew.
  [[nodiscard]] LakeBlock* find_ordered(Bytes size, StreamId stream) const;
  [[nodiscard]] Bytes budget() const;
  [[nodiscard]] Bytes room() const;
  [[nodiscard]] Bytes up(Bytes size) const { return size.rounded_up(granule_); }
  [[nodiscard]] Bytes down(Bytes size) const { return size.rounded_down(granule_); }
  /// Whether next to nothing of the budget would be left.
  [[nodiscard]] bool is_scarce(Bytes size) const;
  [[nodiscard]] Bytes chunk_limit(Bytes size) const;
  [[nodiscard]] std::vector<Bytes> chunk_sizes(Bytes total, Bytes size) const;
  Place place_for(Lane& lane, Bytes size);
  void add_whole_chunks(LakeBlock* run, std::vector<Part>& parts) const;
  /// Every lane that there is.
  template <class Visit>
  void for_each_lane(Visit&& visit) const {
    for (const auto& lanes : lanes_)
      for (const auto& lane : lanes)
        if (lane != nullptr) visit(*lane);
  }
  /// The free runs of at least a granule, of each lane from the largest down; `visit` answers whether to go on there.
  template <class Visit>
  void for_each_run(const LakeBlock* except, Visit&& visit) const;
  [[nodiscard]] std::vector<Part> whole_chunks(const LakeBlock* except) const;
  [[nodiscard]] std::vector<Part> first_parts(const LakeBlock* except) const;
  [[nodiscard]] std::optional<Part> first_part(LakeBlock* run) const;
  [[nodiscard]] std::optional<Part> odd_part(LakeBlock* run) const;
  [[nodiscard]] std::optional<Part> largest_odd_part(const LakeBlock* except) const;
  [[nodiscard]] std::optional<Plan> plan(Lane& lane, Bytes size);
  /// The free memory that a plan could show in one range that begins with the free block `run`; null: with none.
  [[nodiscard]] Bytes free_from(const LakeBlock* run) const;
  void split_excess(Plan& plan, Bytes size, Bytes excess);

  // Acting (lake_executor.cpp).
  /// What `act` gives; null if the driver had no memory for it, which is noted in the attempt.
  template <class Act>
  Block* try_to(Attempt& attempt, Tried::What what, Act&& act);
  /// By every means that the budget leaves.
  Block* gather(Attempt& attempt, Lane& lane);
  /// Waits in the host for all that keeps addresses, or memory of this pool, from being used anew. False if there is
  /// nothing like that.
  bool wait_for_streams();
  /// Asks drivers that once had less than they should have; true if one has more now.
  bool has_more_than_known();
  Block* grow(Lane& lane, Bytes size);
  /// New chunks below the run of a place, made and mapped outside the lock. Until they are there, the addresses and the
  /// run are claimed and the memory is promised, so that nobody else plans with them.
  Block* grow_outside(const Place& place, const std::vector<Bytes>& sizes, Bytes size);
  /// Takes the place's highest `size` bytes and its run out of everybody's sight; returns the former.
  LakeBlock* claim(const Place& place, Bytes size);
  /// Chunks below `top`, mapped and accessible. Reads nothing that the lock guards. `failed_on`: the home whose driver
  /// had no memory.
  [[nodiscard]] Made make(const std::vector<Making>& makings, const std::vector<std::shared_ptr<Device>>& users,
                          Range& range, Address top, std::size_t& failed_on) const;
  /// The reverse: nothing came of it.
  void unclaim(LakeBlock* claimed, LakeBlock* run);
  Block* carry_out(Plan& plan, Bytes size);
  Range& add_range(Lane& lane, Bytes at_least);
  /// On what each chunk will be made. A chunk lies on one device, so the last one of a device may be smaller.
  [[nodiscard]] std::vector<Making> assign(const std::vector<Bytes>& sizes, StreamId stream) const;
  /// New chunks; all or none. A driver without memory is noted in the homes, and its error passes.
  std::vector<std::unique_ptr<LakeChunk>> create(const std::vector<Bytes>& sizes, StreamId stream);
  /// One of them. Reads nothing that the lock guards.
  [[nodiscard]] std::unique_ptr<LakeChunk> create_one(const Making& making) const;
  void note_shortage(std::size_t home);
  /// What is held on a home, and what is being made on it.
  [[nodiscard]] Bytes taken_on(std::size_t home) const { return ledger_.held_on(home) + ledger_.promised_on(home); }
  [[nodiscard]] std::size_t next_home(const std::vector<Bytes>& made, StreamId stream) const;
  [[nodiscard]] std::unique_ptr<LakeChunk> create_on_host(Bytes size) const;
  void keep(std::vector<std::unique_ptr<LakeChunk>>& chunks);
  void forget(LakeChunk* chunk);
  /// pre: it was not spilled.
  [[nodiscard]] std::size_t home_of(const LakeChunk& chunk) const { return std::min(chunk.device, homes_.size() - 1); }
  /// For `users`, and for the CPU where memory lies on the host: so much at the top of the range.
  void set_access(AddressRange range, std::span<const std::shared_ptr<Device>> users, Bytes on_host) const;
  void settle_in(LakeChunk& chunk, Range& range, Address address, Mapping mapping);
  /// The chunk's old place becomes a hole when its stream has passed.
  void leave(const Part& whole);
  /// The same when it has passed already: the chunk is mapped nowhere afterwards.
  void vacate(const Part& whole);
  /// Gives the chunk back that a plan makes anew.
  void give_up_recreated(Plan& plan);
  Block* show(const Plan& plan, LakeBlock* block, Address top, std::vector<View::Piece> pieces, Bytes size);
  void release_bare_ranges(Lane& lane);
  void end_view(LakeBlock* block);
  void reap();
  /// Later work of `waiter` comes behind whatever may still use the free run. Counts by which rule.
  void let_wait(StreamId waiter, const LakeBlock& run);

  // Memory of the host (lake_spill.cpp).
  /// What serves a request when the devices have no room.
  Block* spill(Attempt& attempt, Lane& lane);
  [[nodiscard]] LakeBlock* find_spilled(Bytes size, StreamId stream) const;
  [[nodiscard]] std::vector<Part> spilled_chunks() const;
  [[nodiscard]] Plan plan_spill(Lane& lane, Bytes size);
  Block* take_mixed(const Plan& plan, LakeBlock* block, Bytes size);

  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<Home> homes_;
  CUmemLocation host_{};  // where memory of the host is made, if any is
  LakeOptions options_;
  ReuseRules rules_;
  Bytes granule_;
  StreamClock clock_;
  BlockGroup small_{true};  // only names: free blocks are in the lanes
  BlockGroup large_{false};
  std::vector<std::array<std::unique_ptr<Lane>, 2>> lanes_;  // by stream; large and small
  std::vector<std::unique_ptr<LakeChunk>> chunks_;
  std::vector<Retired> retired_;
  std::deque<LakeBlock> store_;  // blocks never move
  std::vector<LakeBlock*> unused_;
  std::uint64_t settlings_ = 0;
  std::uint64_t ranges_made_ = 0;
  Bytes used_;                              // by live and pending blocks
  Bytes largest_chunk_;                     // ever made
  std::optional<Bytes> free_in_one_range_;  // what the last plan of this request counted, if it was not enough
  LakeCounters counters_;
};

template <class Act>
Block* LakeSpace::try_to(Attempt& attempt, Tried::What what, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.tried.push_back({what, true});
    return nullptr;
  }
}

}  // namespace memlake
