#pragma once

// Pool: memory under one policy. Drives a request down the line: rounding, a free block, or whatever its space can do;
// keeps what was freed until the streams that used it have passed. The only place that counts. Not thread-safe: the
// lock is the caller's (live/, C ABI).

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/segments/segment_rules.hpp"
#include "policies/space.hpp"
#include "pool/pool_stats.hpp"
#include "pool/row_log.hpp"
#include "pool/shortage.hpp"

namespace memlake {

namespace test {
struct PoolSabotage;
}

class Pool {
  friend struct test::PoolSabotage;  // breaks it, so that tests see what find_broken_invariant() reports

 public:
  /// `space`: of the policy. The pool's budget is that of its ledger.
  Pool(std::unique_ptr<Space> space, EventSource& events);
  /// With a SegmentSpace. `limit`: what may be held; the largest number for no limit.
  Pool(std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy, EventSource& events, Bytes limit);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  /// Adds a space whose ledger has the pool's budget. `is_default`: it serves the requests that name no space. It gets
  /// the reuse rules and the peers of the policy's space.
  Space& add_space(std::unique_ptr<Space> space, bool is_default);
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const { return policy_space().ledger().budget(); }

  /// See Space; for all its spaces.
  void set_reuse_rules(const ReuseRules& rules);
  void set_peers(const std::vector<std::shared_ptr<Device>>& peers);

  /// A live block of at least `requested` bytes for work on `stream`; null if there is no memory for it, and then
  /// shortage() says why.
  Block* allocate(Bytes requested, StreamId stream) { return allocate_from(*default_space_, requested, stream); }
  /// The same in one of its spaces.
  Block* allocate_from(Space& space, Bytes requested, StreamId stream);
  /// The same, but only if it needs no driver call: null says nothing about the memory.
  Block* allocate_cached(Bytes requested, StreamId stream);

  /// The caller gives a live block back, in the order of the stream that it was allocated for.
  void free(Block* block) { free(block, block->user); }
  /// In the order of another stream: the caller promises that its work is behind all earlier work on the block.
  void free(Block* block, StreamId stream);
  /// When nothing on any device can still be using the block: it is free at once, and nothing is recorded.
  void free_unused(Block* block, StreamId stream);
  /// Whether free(block, stream) will make no driver call.
  [[nodiscard]] bool frees_at_once(const Block& block, StreamId stream) const;

  /// Work on another stream uses the block: once freed, it waits for that stream.
  void record_use(Block* block, StreamId stream);

  /// Makes sure that one free block of `size` bytes is there for the stream. False if there is no memory for it.
  bool preallocate(Bytes size, StreamId stream);
  /// Gives free memory back to the driver as long as at least `keep` bytes stay held. Waits for no event.
  void trim(Bytes keep);
  /// Gives everything that is free back to the driver, after waiting for all events.
  void release_cached();

  /// Of the policy.
  [[nodiscard]] Space& policy_space() const noexcept { return *spaces_.front(); }
  [[nodiscard]] const std::vector<std::unique_ptr<Space>>& spaces() const noexcept { return spaces_; }
  /// pre: the block is live or pending.
  [[nodiscard]] Space& space_of(const Block& block) const noexcept { return *spaces_[block.space]; }
  /// What all its spaces hold.
  [[nodiscard]] const Level& held() const;
  /// Memory on the host beside that, for which the devices had no room. No limit counts it.
  [[nodiscard]] Level spilled() const;
  [[nodiscard]] Bytes limit() const { return budget()->limit; }
  void set_limit(Bytes limit) { budget()->limit = limit; }
  /// Whether as much as `mark` is held and less was since this last answered yes.
  bool has_risen_to(Bytes mark);
  /// Every block of all its spaces, in no order.
  void for_each(const std::function<void(const Block&)>& visit) const;
  [[nodiscard]] std::size_t segment_count() const;
  /// The largest free block of any stream.
  [[nodiscard]] Bytes largest_free() const;
  [[nodiscard]] PoolStats stats() const;
  void reset_peaks();
  /// Only that of what is held, and of what is live or pending.
  void reset_held_peak();
  void reset_active_peak();
  /// The most that was live or pending since this was last asked.
  Bytes take_recent_peak();
  /// About the request that was refused last; to be asked at once. `device_free`: what the driver can still give;
  /// nothing: what it should have if this pool is alone on its devices.
  [[nodiscard]] Shortage shortage(std::optional<Bytes> device_free = std::nullopt) const;
  [[nodiscard]] std::vector<std::pair<StreamId, Bytes>> pending_on() const;

  /// From now on every operation is written to `log`; null ends it. Blocks that live now are its first rows.
  void write_to(RowLog* log);

  /// Verifies I1 to I8. The sentence of the first that broke, beginning with its name; nothing if all hold.
  [[nodiscard]] std::optional<std::string> find_broken_invariant() const;

 private:
  struct Awaited {
    EventSource::Ticket ticket;
    Block* block;
    bool is_reusable_here;  ///< was freed in the order of this stream, so a request of this stream may have it at once
  };

  /// The request that was refused last.
  struct Refusal {
    const Space* space = nullptr;  ///< that refused it
    Attempt attempt{};
    bool has_no_addresses = false;
  };

  /// By every means, when the space has no free block that fits; null if there is no memory, and then shortage() says
  /// why.
  Block* acquire(Space& space, Attempt& attempt);
  /// By the ladder of one space.
  Block* climb(Space& space, Attempt& attempt);
  /// Gives memory back that is free in other spaces, if that can help; false if none was.
  bool release_in_others(const Space& space, const Attempt& attempt);
  Block* hand_out(const Space& space, Block* block, Bytes requested, StreamId user, std::uint64_t id);
  Block* take_over(const Space& space, Bytes rounded, StreamId stream);
  void note_free(const Block& block, StreamId stream);
  void count_out(const Block& block);
  void make_free(Block* block);
  void poll_events();
  void wait_for_events();
  void settle_behind_waits();
  /// The event of the oldest of a queue is over: one less that its block waits for.
  void settle_oldest(std::deque<Awaited>& queue);
  void give_addresses_back();
  void count_held_peak();
  void note_refusal(std::uint64_t id, StreamId stream);
  void note(RowLog::Op op, std::uint64_t id, Bytes bytes, StreamId stream) {
    if (log_ != nullptr) log_->add(op, id, bytes, stream);
  }

  EventSource& events_;
  std::vector<std::unique_ptr<Space>> spaces_;  // the first is the policy's
  Space* default_space_;                        // serves requests that name no space
  std::vector<std::deque<Awaited>> awaited_;    // by stream, oldest first
  std::size_t awaited_count_ = 0;
  std::size_t reusable_here_ = 0;  // of those
  std::uint64_t next_id_ = 0;
  std::uint64_t live_digest_ = 0;  // of the blocks that are live or pending; see pool_check.cpp
  Bytes held_peak_seen_;
  Bytes active_peak_before_;  // before the period that take_recent_peak() is about
  PoolStats stats_;           // but for what is held, which the space counts; the active peak is that of the period
  Refusal refusal_;
  RowLog* log_ = nullptr;
};

}  // namespace memlake
