#pragma once

// PendingBlocks: the freed blocks of a pool that streams still use, in a queue for each stream, and the threads that
// wait for streams. A block that waits for no event any more is settled: the pool makes it free.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "blocks/block.hpp"
#include "driver/relaxed_capture.hpp"
#include "streams/event_source.hpp"

namespace memlake {

namespace test {
struct PoolSabotage;
}

class PendingBlocks {
  friend struct test::PoolSabotage;  // breaks it, so that tests see what find_broken_invariant() reports

 public:
  struct Awaited {
    EventSource::Ticket ticket;
    Block* block;
    bool is_reusable_here;  ///< was freed in the order of this stream, so a request of this stream may use it at once
  };
  using Queue = std::deque<Awaited>;

  explicit PendingBlocks(EventSource& events) : events_(events) {}

  /// How many events are awaited.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// How many of them are of blocks that a request of their stream may use at once.
  [[nodiscard]] std::size_t reusable_count() const noexcept { return reusable_count_; }
  /// The queues by stream, oldest first.
  [[nodiscard]] const std::vector<Queue>& queues() const noexcept { return queues_; }
  /// The streams whose queue is not empty, in order.
  [[nodiscard]] const std::vector<StreamId>& streams() const noexcept { return waiting_; }
  [[nodiscard]] std::vector<std::pair<StreamId, Bytes>> bytes_by_stream() const;

  void add(StreamId stream, const Awaited& awaited);
  /// Takes a block out of the queue of a stream that was freed in the order of this stream, if `fits` accepts it; null
  /// if there is none. Only the oldest are looked at.
  template <class Fits>
  Block* take_reusable(StreamId stream, Fits&& fits);

  // `settle` is called with each block that waits for no event any more. It may give the block back, and nothing else.

  /// Settles the blocks whose events are complete.
  template <class Settle>
  void poll(Settle&& settle) {
    for_each_queue([&](Queue& queue) {
      while (!queue.empty() && events_.is_done(queue.front().ticket)) settle_oldest(queue, settle);
    });
  }
  /// Waits for the events, then settles the blocks. A block stays whose stream captures a graph.
  template <class Settle>
  void wait(Settle&& settle) {
    for_each_queue([&](Queue& queue) {
      while (!queue.empty() && events_.has_point(queue.front().ticket)) {
        events_.wait(queue.front().ticket);
        settle_oldest(queue, settle);
      }
    });
  }
  /// Settles all blocks at once: later work of the streams that `owners_of` lists waits on the device for the streams
  /// that still use the block. A block stays that a stream uses that captures a graph, or that belongs to such a
  /// stream. `may_wait`: the host waits for the users of a block that belongs to a stream that cannot wait on the
  /// device; else that block stays, too.
  template <class OwnersOf, class Settle>
  void settle_behind_waits(bool may_wait, OwnersOf&& owners_of, Settle&& settle);

  // Threads that wait for a stream without the pool's lock.

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
  /// A block of the stream was freed.
  void note_free(StreamId stream) {
    if (host_waiters_ > 0) [[unlikely]]
      ++freed_while_waiting_[stream];
  }

 private:
  // Of the pending blocks of a stream only the oldest are looked at, so that a long queue does not slow every request.
  static constexpr std::size_t kMostLookedAt = 64;

  /// Calls `visit` with each queue that is not empty; it may settle blocks, and nothing else.
  template <class Visit>
  void for_each_queue(Visit&& visit) {
    const RelaxedCapture relaxed(events_.driver());
    for (const StreamId stream : waiting_) visit(queues_[stream]);
    std::erase_if(waiting_, [this](StreamId stream) { return queues_[stream].empty(); });
  }
  /// The oldest event of a queue is complete. If its block waits for no other event, the block is settled.
  template <class Settle>
  void settle_oldest(Queue& queue, Settle&& settle) {
    const Awaited awaited = queue.front();
    queue.pop_front();
    --count_;
    reusable_count_ -= awaited.is_reusable_here ? 1U : 0U;
    if (--awaited.block->awaited == 0) settle(awaited.block);
  }

  EventSource& events_;
  std::vector<Queue> queues_;      // by stream, oldest first
  std::vector<StreamId> waiting_;  // the streams whose queue is not empty, in order
  std::size_t count_ = 0;
  std::size_t reusable_count_ = 0;
  std::size_t host_waiters_ = 0;  // threads that wait for a stream without the lock
  std::unordered_map<StreamId, std::uint64_t> freed_while_waiting_;
};

template <class Fits>
Block* PendingBlocks::take_reusable(StreamId stream, Fits&& fits) {
  if (stream >= queues_.size()) return nullptr;
  Queue& queue = queues_[stream];
  const std::size_t looks = std::min(queue.size(), kMostLookedAt);
  for (auto at = queue.begin(); at != queue.begin() + static_cast<std::ptrdiff_t>(looks); ++at) {
    Block* block = at->block;
    if (!at->is_reusable_here || block->awaited != 1 || !fits(*block)) continue;
    events_.drop(at->ticket);
    queue.erase(at);
    --count_;
    --reusable_count_;
    block->awaited = 0;
    return block;
  }
  return nullptr;
}

template <class OwnersOf, class Settle>
void PendingBlocks::settle_behind_waits(bool may_wait, OwnersOf&& owners_of, Settle&& settle) {
  std::vector<StreamId> owners;
  const auto has_to_stay = [&](StreamId owner) {
    return events_.progress().is_capturing(owner) || (!may_wait && !events_.handles().usable_handle_of(owner));
  };
  for_each_queue([&](Queue& queue) {
    while (!queue.empty() && events_.has_point(queue.front().ticket)) {
      const Awaited& awaited = queue.front();
      owners.clear();
      owners_of(*awaited.block, owners);
      if (std::ranges::any_of(owners, has_to_stay)) break;
      for (const StreamId owner : owners) events_.let_wait(owner, awaited.ticket);
      // What goes back to no stream goes back to the driver, which waits for no stream.
      owners.empty() ? events_.wait(awaited.ticket) : events_.drop(awaited.ticket);
      settle_oldest(queue, settle);
    }
  });
}

}  // namespace memlake
