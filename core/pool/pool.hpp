#pragma once

// Pool: memory under one policy. It rounds a request and serves it with a free block or by the ladder of a space. It
// keeps freed blocks pending until the streams that used them have passed. Only the pool counts requests and blocks.
// Not thread-safe: the caller has the lock (runtime/live_pool.hpp).

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/segments/segment_rules.hpp"
#include "policies/space.hpp"
#include "pool/pool_stats.hpp"
#include "pool/pool_watch.hpp"
#include "pool/row_log.hpp"
#include "pool/shortage.hpp"

namespace memlake {

namespace test {
struct PoolSabotage;
}

/// A request whose thread may have to wait without the lock and to begin it anew. A recording has one row of it, where
/// it began first: a replay then waits at the same place.
struct RequestRow {
  std::optional<std::uint64_t> id;
  std::uint64_t log = 0;  ///< the recording that has the row; 0: none
  /// The request was given up for a wait behind which it would have released memory; see Pool::count_due_retry().
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

  /// Where owners of its spaces go whose undo call failed. The pool closes them when it needs memory or is trimmed.
  void set_leftovers(std::shared_ptr<Leftovers> leftovers) { leftovers_ = std::move(leftovers); }
  /// The memory whose release failed; it is held, but in no space.
  [[nodiscard]] Bytes unreleased() const { return budget()->unreleased; }

  /// Adds a space whose ledger has the pool's budget. `is_default`: it serves the requests that name no space. It gets
  /// the reuse rules and the peers of the policy's space.
  Space& add_space(std::unique_ptr<Space> space, bool is_default);
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const { return policy_space().ledger().budget(); }

  // Graph pools: the memory of graphs, each in spaces of its own (pool_graphs.cpp).

  using GraphSpaceMaker = std::function<std::unique_ptr<Space>(std::shared_ptr<GraphPool>)>;
  /// One more graph uses the graph pool. The first one makes it, or takes it back before its memory is gone.
  void use_graph_pool(GraphPoolId id);
  /// A graph gives it up. After the last one its free memory may be released. `at_once`: the caller will do that next;
  /// a recording tells it. Error(invalid_free) if no graph uses it.
  void release_graph_pool(GraphPoolId id, bool at_once);
  /// Whether a graph may have captured memory of it. While none has, its free memory is its own cache: a request to it
  /// that is short of memory releases it, and so does release_cached(). A new graph pool counts as captured. pre: a
  /// graph uses it.
  void set_captured(GraphPoolId id, bool is_captured);
  /// How many no graph uses any more, and the host must wait before their memory is released.
  [[nodiscard]] std::size_t ended_graphs_that_may_run() const;
  /// Null if no graph uses it and none of its memory is left.
  [[nodiscard]] const GraphPool* find_graph_pool(GraphPoolId id) const;
  [[nodiscard]] Bytes held_by(const GraphPool& graph_pool) const;
  /// The space of the graph pool on a device of the pool; `make` makes it if there is none. pre: a graph uses it.
  Space& graph_space(GraphPoolId id, std::size_t device_number, const GraphSpaceMaker& make);
  /// Releases the free memory of graph pools that no graph uses any more; false if none was released. `may_wait`: also
  /// of those whose graphs may still run; the host waits for the devices then. `only`: of this graph pool alone; the
  /// host then also waits for the streams that use what was freed there.
  bool release_ended_graphs(bool may_wait, std::optional<GraphPoolId> only = std::nullopt);

  /// Sets an earlier state of the graph pool again: frees `live`, which are all its live blocks, and returns the blocks
  /// `earlier`, allocated (pool_restore.cpp). Error(invalid_argument) says why that is not possible. Calls `decided`
  /// when it is certain. Up to then nothing has changed; later only the host's memory can be missing.
  std::vector<Block*> restore(GraphPoolId id, std::span<Block* const> live, std::span<const EarlierBlock> earlier,
                              const std::function<void()>& decided);

  /// See Space; for all spaces of the pool.
  void set_reuse_rules(const ReuseRules& rules);
  void set_peers(const std::vector<std::shared_ptr<Device>>& peers);

  /// A live block of at least `requested` bytes for work on `stream`; null if there is no memory for it. Then
  /// shortage() gives the reason.
  Block* allocate(Bytes requested, StreamId stream) { return allocate_from(*default_space_, requested, stream); }
  /// The same from one of its spaces. `row`: for a caller that may have to begin the request anew; see RequestRow.
  Block* allocate_from(Space& space, Bytes requested, StreamId stream, RequestRow* row = nullptr);
  /// As allocate(), but only if that needs no driver call. Null does not mean that there is no memory.
  Block* allocate_cached(Bytes requested, StreamId stream);
  /// As allocate_from(), but only with a free block; asks the driver for no more than the state of pending blocks.
  Block* allocate_free(Space& space, Bytes requested, StreamId stream, RequestRow* row = nullptr);
  /// The caller does not begin the request anew.
  void give_up(RequestRow& row, StreamId stream);
  [[nodiscard]] Space& default_space() const noexcept { return *default_space_; }

  /// Frees a live block in the order of the stream for which it was allocated.
  void free(Block* block) { free(block, block->user); }
  /// Frees it in the order of another stream. pre: that stream is ordered behind all earlier work on the block. If the
  /// stream captures a graph, the block becomes free after the capture.
  void free(Block* block, StreamId stream) { free_in_order(block, stream, {}); }
  /// The same for a caller that cannot try again: if the driver refuses a call, the block stays pending, and the pool
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

  /// Ensures that the stream has one free block of `size` bytes. False if there is no memory for it.
  bool preallocate(Bytes size, StreamId stream, RequestRow* row = nullptr);
  /// Releases free memory to the driver as long as at least `keep` bytes stay held. Waits for no event.
  void trim(Bytes keep);
  /// Waits for all events, then releases all free memory to the driver.
  void release_cached();

  /// A thread begins to wait for a stream without the lock, and ends that. Both return how often a block of the stream
  /// was freed while a thread waited: with the same number twice, no block became free meanwhile.
  std::uint64_t begin_host_wait(StreamId stream) {
    ++host_waiters_;
    return freed_while_waiting_[stream];
  }
  std::uint64_t end_host_wait(StreamId stream) {
    const std::uint64_t freed = freed_while_waiting_[stream];
    if (--host_waiters_ == 0) freed_while_waiting_.clear();
    return freed;
  }

  /// The space of the policy.
  [[nodiscard]] Space& policy_space() const noexcept { return *spaces_.front(); }
  [[nodiscard]] const std::vector<std::unique_ptr<Space>>& spaces() const noexcept { return spaces_; }
  /// pre: the block is live or pending.
  [[nodiscard]] Space& space_of(const Block& block) const noexcept { return *by_number_[block.space]; }
  /// The memory that all its spaces together hold.
  [[nodiscard]] const Level& held() const;
  /// Host memory that was used because the devices had no room. It is not part of held(), and no limit counts it.
  [[nodiscard]] Level spilled() const;
  [[nodiscard]] Bytes limit() const { return budget()->limit; }
  void set_limit(Bytes limit) { budget()->limit = limit; }
  /// Whether at least `mark` is held now, and less was held at some time since this last returned true.
  bool has_risen_to(Bytes mark);
  /// Visits every block of all its spaces, in no particular order.
  void for_each(const std::function<void(const Block&)>& visit) const;
  /// For each of the first `count` streams, whether a live or pending block depends on it. Walks over all blocks.
  [[nodiscard]] std::vector<bool> streams_in_use(std::size_t count) const;
  [[nodiscard]] std::size_t segment_count() const;
  /// The largest free block of any stream.
  [[nodiscard]] Bytes largest_free() const;
  [[nodiscard]] PoolStats stats() const;
  void reset_peaks();
  /// Resets only the peak of held memory, or only that of live and pending memory.
  void reset_held_peak();
  void reset_active_peak();
  /// The peak of live and pending memory since the last call.
  Bytes take_recent_peak();
  /// Describes the request that was refused last; to be called right after it. `device_free`: the memory that the
  /// driver has left; std::nullopt: the memory that it has left if this pool is alone on its devices.
  [[nodiscard]] Shortage shortage(std::optional<Bytes> device_free = std::nullopt) const;
  [[nodiscard]] std::vector<std::pair<StreamId, Bytes>> pending_on() const;

  /// The request is over. If it was given up for a wait behind which it would have released memory, it counts as a
  /// retry, although the release was not necessary any more.
  void count_due_retry(RequestRow& row) { stats_.retries += std::exchange(row.is_retry_due, false) ? 1U : 0U; }
  /// The refusal of the last request is not counted.
  void uncount_refusal() { --stats_.ooms; }

  /// Counts PyTorch's statistics by size from now on, beginning with the present state.
  void count_by_size();
  /// The counts, up to date; null before count_by_size().
  [[nodiscard]] SizeCounts* size_counts();
  /// The same without what only a walk over the blocks tells.
  [[nodiscard]] SizeCounts* size_counts_at_once() { return watch_ == nullptr ? nullptr : watch_->counts.get(); }
  /// Calls `tell` for every change of the memory; empty: ends it.
  void observe(std::function<void(const MemoryEvent&)> tell);

  /// From now on the pool writes every operation to `log`; null ends that. Blocks that are live now are the first rows.
  void write_to(RowLog* log);

  /// Checks I1 to I8. A sentence about the first broken one, which begins with its name; std::nullopt if all hold.
  [[nodiscard]] std::optional<std::string> find_broken_invariant() const;

 private:
  struct Awaited {
    EventSource::Ticket ticket;
    Block* block;
    bool is_reusable_here;  ///< was freed in the order of this stream, so a request of this stream may use it at once
  };

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

  /// The watch, made on first use.
  PoolWatch& watch();
  void end_watch_if_unused();
  /// Brings the counts that need a look at every block up to date.
  void count_splits();

  void retry_leftovers();
  /// Removes spaces of graph pools that are released and hold nothing.
  void remove_ended_graphs();
  /// A block of a graph pool comes into the hands of a caller, or leaves them.
  void count_graph(const Space& space, Bytes more, Bytes less);
  /// Whether free() of the block leaves no stream behind that still uses it.
  bool is_used_by_its_stream_alone(const Block& live);
  [[nodiscard]] Bytes held_by_graphs() const;
  /// Whether no graph uses the graph pool, and a block that was freed there waits for a stream.
  [[nodiscard]] bool is_awaited(GraphPoolId id) const;
  /// Free memory that graphs use, except that of one space.
  [[nodiscard]] Bytes kept_for_graphs(const Space* except) const;
  void check_graphs(InvariantReport& report) const;
  /// Tries everything when no free block of the space fits. Null if there is no memory; then shortage() says why.
  Block* acquire(Space& space, Attempt& attempt, RequestRow* row);
  /// Tries the rungs of one space.
  Block* climb(Space& space, Attempt& attempt, RequestRow* row);
  /// Releases free memory of the other spaces if that can help; false if none was released.
  bool release_in_others(const Space& space, const Attempt& attempt);
  Block* hand_out(const Space& space, Block* block, Bytes requested, StreamId user, std::uint64_t id);
  Block* take_over(const Space& space, Bytes rounded, StreamId stream);
  void note_free(const Block& block, StreamId stream);
  void count_out(const Block& block);
  void make_free(Block* block);
  void poll_events();
  /// Calls `visit` with each queue that is not empty; it may settle blocks, and nothing else.
  template <class Visit>
  void for_each_queue(Visit&& visit) {
    for (const StreamId stream : waiting_) visit(awaited_[stream]);
    std::erase_if(waiting_, [this](StreamId stream) { return awaited_[stream].empty(); });
  }
  void add_awaited(StreamId stream, const Awaited& awaited);
  void wait_for_events();
  /// What is pending becomes free at once: its owners' later work waits on the device for the streams that still use
  /// it. What a stream uses that captures a graph, or what belongs to such a stream, stays pending. `may_wait`: the
  /// host waits for the users of what belongs to a stream that cannot wait on the device; else that stays pending, too.
  void settle_behind_waits(bool may_wait);
  /// The oldest event of a queue is complete. If its block waits for no other event, the block becomes free.
  void settle_oldest(std::deque<Awaited>& queue);
  void give_addresses_back();
  void count_held_peak();
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
  std::shared_ptr<Leftovers> leftovers_;        // null: there are none
  std::vector<std::unique_ptr<Space>> spaces_;  // the first is the policy's
  std::vector<Space*> by_number_;               // the same; null: a number that no space has now
  std::map<GraphPoolId, std::shared_ptr<GraphPool>> graph_pools_;
  Space* default_space_;                      // serves requests that name no space
  std::vector<std::deque<Awaited>> awaited_;  // by stream, oldest first
  std::vector<StreamId> waiting_;             // the streams whose queue in awaited_ is not empty, in order
  std::size_t awaited_count_ = 0;
  std::size_t host_waiters_ = 0;  // threads that wait for a stream without the lock
  std::unordered_map<StreamId, std::uint64_t> freed_while_waiting_;
  std::size_t reusable_here_ = 0;  // number of those with is_reusable_here
  std::uint64_t next_id_ = 0;
  std::uint64_t log_number_ = 1;   // changes with log_
  std::uint64_t live_digest_ = 0;  // of the blocks that are live or pending; see pool_check.cpp
  Bytes held_peak_seen_;
  Bytes active_peak_before_;  // peak before the last take_recent_peak()
  PoolStats stats_;  // without held memory, which the budget counts; its active peak is that since take_recent_peak()
  Refusal refusal_;
  RowLog* log_ = nullptr;
  std::unique_ptr<PoolWatch> watch_;  // null: no program watches
};

}  // namespace memlake
