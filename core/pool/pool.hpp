#pragma once

// Pool: memory under one policy. It rounds a request and serves it with a free block or by the ladder of a space, and
// it takes blocks back. Its parts have the rest: its spaces, its graph pools, its pending blocks, its figures and its
// watchers. Not thread-safe: the caller has the lock (runtime/locked_pool.hpp).

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/segments/segment_rules.hpp"
#include "policies/space.hpp"
#include "pool/pending_blocks.hpp"
#include "pool/pool_figures.hpp"
#include "pool/pool_graphs.hpp"
#include "pool/pool_spaces.hpp"
#include "pool/pool_watchers.hpp"
#include "pool/row_log.hpp"
#include "pool/shortage.hpp"

namespace memlake {

/// A request whose thread may have to wait without the lock and to begin it anew. A recording has one row of it, where
/// it began first: a replay then waits at the same place.
struct RequestRow {
  std::optional<std::uint64_t> id;
  std::uint64_t log = 0;  ///< the recording that has the row; 0: none
  /// The request was given up for a wait behind which it would have released memory; see Pool::end_request().
  bool is_retry_due = false;
};

/// A block that a graph pool had live at an earlier moment.
struct EarlierBlock {
  AddressRange range;
  Bytes requested;
  StreamId stream = 0;  ///< that it was allocated for
};

class Pool {
  friend struct test::PoolSabotage;  // breaks it, so that tests see what find_broken_invariant() reports

 public:
  /// `space`: the space of the policy. The budget of its ledger becomes the pool's budget.
  Pool(std::unique_ptr<Space> space, EventSource& events);
  /// With a SegmentSpace. `limit`: the most that may be held; Budget::kUnlimited for no limit.
  Pool(std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy, EventSource& events, Bytes limit);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // Its parts.

  [[nodiscard]] PoolSpaces& spaces() noexcept { return spaces_; }
  [[nodiscard]] const PoolSpaces& spaces() const noexcept { return spaces_; }
  [[nodiscard]] PoolGraphs& graphs() noexcept { return graphs_; }
  [[nodiscard]] const PoolGraphs& graphs() const noexcept { return graphs_; }
  [[nodiscard]] PoolFigures& figures() noexcept { return figures_; }
  [[nodiscard]] const PoolFigures& figures() const noexcept { return figures_; }
  [[nodiscard]] PoolWatchers& watchers() noexcept { return watchers_; }
  [[nodiscard]] PendingBlocks& pending() noexcept { return pending_; }

  // Requests.

  /// A live block of at least `requested` bytes of the default space for work on `stream`; null if there is no memory
  /// for it. Then shortage() gives the reason.
  Block* allocate(Bytes requested, StreamId stream) { return allocate(spaces_.by_default(), requested, stream); }
  /// A live block of one of its spaces. `row`: for a caller that may have to begin the request anew; see RequestRow.
  Block* allocate(Space& space, Bytes requested, StreamId stream, RequestRow* row = nullptr);
  /// A live block of the default space, if that needs no driver call. Null does not mean that there is no memory.
  Block* take_at_once(Bytes requested, StreamId stream);
  /// A live block that was free; null if none of the space fits. Asks the driver for no more than the state of pending
  /// blocks.
  Block* take_free(Space& space, Bytes requested, StreamId stream, RequestRow* row = nullptr);
  /// The caller does not begin the request anew.
  void give_up(RequestRow& row, StreamId stream);
  /// The request is over. If it was given up for a wait behind which it would have released memory, it counts as a
  /// retry, although the release was not necessary any more.
  void end_request(RequestRow& row) {
    if (std::exchange(row.is_retry_due, false)) figures_.count_retry();
  }
  /// Describes the request that was refused last; to be called right after it. `device_free`: the memory that the
  /// driver has left; std::nullopt: the memory that it has left if this pool is alone on its devices.
  [[nodiscard]] Shortage shortage(std::optional<Bytes> device_free = std::nullopt) const;

  // Frees.

  /// Frees a live block in the order of the stream for which it was allocated.
  void free(Block* block) { free(block, block->user); }
  /// Frees it in the order of another stream. pre: that stream is ordered behind all earlier work on the block. If the
  /// stream captures a graph, the block becomes free after the capture.
  void free(Block* block, StreamId stream) { free_in_order(block, stream, {}); }
  /// Frees it for a caller that cannot try again: if the driver refuses a call, the block stays pending, and the pool
  /// makes the call later. Throws only if the host has no memory. `names_streams`: whether the caller guarantees that
  /// the streams of the block exist, as for free().
  void free_finally(Block* block, StreamId stream, bool names_streams = true) {
    free_in_order(block, stream, {.is_final = true, .names_streams = names_streams});
  }
  /// Whether free(block, stream) will make no driver call.
  [[nodiscard]] bool frees_at_once(const Block& block, StreamId stream) const {
    return block.users.empty() && stream == block.stream && block.give_back == GiveBack::cached;
  }
  /// Work on another stream uses the block: after its free, the block is pending until that stream has passed.
  void record_use(Block* block, StreamId stream);

  // The memory as a whole.

  /// Ensures that the stream has one free block of `size` bytes. False if there is no memory for it.
  bool preallocate(Bytes size, StreamId stream, RequestRow* row = nullptr);
  /// Releases free memory to the driver as long as at least `keep` bytes stay held. Waits for no event.
  void trim(Bytes keep);
  /// Waits for all events, then releases all free memory to the driver.
  void release_cached();
  /// Where owners of its spaces go whose undo call failed. The pool closes them when it needs memory or is trimmed.
  void set_leftovers(std::shared_ptr<Leftovers> leftovers) { leftovers_ = std::move(leftovers); }
  /// For each of the first `count` streams, whether a live or pending block depends on it. Walks over all blocks.
  [[nodiscard]] std::vector<bool> streams_in_use(std::size_t count) const;

  // The memory of graph pools (pool_graph_memory.cpp, pool_restore.cpp).

  /// A graph gives the graph pool up. After the last one its free memory may be released. `at_once`: the caller will do
  /// that next; a recording tells it. Error(invalid_free) if no graph uses it.
  void release_graph_pool(GraphPoolId id, bool at_once);
  /// Releases the free memory of graph pools that no graph uses any more; false if none was released. `may_wait`: also
  /// of those whose graphs may still run; the host waits for the devices then. `only`: of this graph pool alone; the
  /// host then also waits for the streams that use what was freed there.
  bool release_ended_graphs(bool may_wait, std::optional<GraphPoolId> only = std::nullopt);
  /// Sets an earlier state of the graph pool again: frees `live`, which are all its live blocks, and returns the blocks
  /// `earlier`, allocated. Error(invalid_argument) says why that is not possible. Calls `decided` when it is certain.
  /// Up to then nothing has changed; later only the host's memory can be missing.
  std::vector<Block*> restore(GraphPoolId id, std::span<Block* const> live, std::span<const EarlierBlock> earlier,
                              const std::function<void()>& decided);

  /// From now on the pool writes every operation to `log`; null ends that. Blocks that are live now are the first rows.
  void write_to(RowLog* log);

  /// Checks I1 to I8. A sentence about the first broken one, which begins with its name; std::nullopt if all hold.
  [[nodiscard]] std::optional<std::string> find_broken_invariant() const;

 private:
  using Awaited = PendingBlocks::Awaited;

  /// The request that was refused last.
  struct Refusal {
    const Space* space = nullptr;  ///< that refused it
    Attempt attempt{};
    bool has_no_addresses = false;
  };

  struct Freeing {
    bool is_final = false;
    bool names_streams = true;
  };

  void free_in_order(Block* block, StreamId stream, Freeing how) {
    if (frees_at_once(*block, stream)) [[likely]] {
      note_free(*block, stream);
      make_free(block);
    } else {
      free_slowly(block, stream, how);
    }
  }
  /// With driver calls.
  void free_slowly(Block* block, StreamId stream, Freeing how);
  /// A point of each stream, recorded now or, if the free is final and the driver refuses, later.
  [[nodiscard]] std::vector<Awaited> record(Block* block, const std::vector<StreamId>& streams, bool is_final);

  void retry_leftovers();
  /// Removes spaces of graph pools that are released and hold nothing.
  void remove_ended_graphs();
  /// Whether free() of the block leaves no stream behind that still uses it.
  bool is_used_by_its_stream_alone(const Block& live);
  /// Tries everything when no free block of the space fits. Null if there is no memory; then shortage() says why.
  Block* acquire(Space& space, Attempt& attempt, RequestRow* row);
  /// Tries the ladder of the space, then once more behind a release of free memory of the other spaces; null if there
  /// is no memory, std::nullopt if the addresses ran out.
  std::optional<Block*> search(Space& space, Attempt& attempt, RequestRow* row);
  /// Tries the rungs of one space, again as often as a rung asks for that.
  Block* climb(Space& space, Attempt& attempt, RequestRow* row);
  /// Tries each rung of one space once, in order.
  Block* try_rungs(Space& space, Attempt& attempt, RequestRow* row);
  /// Releases free memory of the other spaces if that can help; false if none was released.
  bool release_in_others(const Space& space, const Attempt& attempt);
  Block* hand_out(const Space& space, Block* block, Bytes requested, StreamId user, std::uint64_t id);
  Block* take_over(const Space& space, Bytes rounded, StreamId stream);
  void note_free(const Block& block, StreamId stream);
  void count_out(const Block& block);
  void make_free(Block* block);
  // What PendingBlocks does; the pool frees the blocks that it settles.
  void poll_events();
  void wait_for_events();
  void settle_behind_waits(bool may_wait);
  void settle(Block* block);
  void give_addresses_back();
  void note_refusal(std::uint64_t id, StreamId stream);
  /// The number of a request, which is noted unless its row is in the recording already.
  std::uint64_t begin_request(const Space& space, Bytes requested, StreamId stream, RequestRow* row);
  void note(RowLog::Op op, std::uint64_t id, Bytes bytes, StreamId stream) {
    if (log_ != nullptr) log_->add(op, id, bytes, stream);
  }
  void note_request(const Space& space, std::uint64_t id, Bytes bytes, StreamId stream) {
    if (log_ == nullptr) return;
    log_->add(RowLog::Op::allocate, id, bytes, stream, space.graph_pool() ? space.graph_pool()->id : GraphPoolId{});
  }

  EventSource& events_;
  std::shared_ptr<Leftovers> leftovers_;  // null: there are none
  PoolSpaces spaces_;
  PoolGraphs graphs_{spaces_};
  PoolFigures figures_{spaces_, graphs_};
  PoolWatchers watchers_{spaces_};
  PendingBlocks pending_{events_};
  std::uint64_t next_id_ = 0;
  std::uint64_t log_number_ = 1;   // changes with log_
  std::uint64_t live_digest_ = 0;  // of the blocks that are live or pending; see pool_check.cpp
  Refusal refusal_;
  RowLog* log_ = nullptr;
};

}  // namespace memlake
