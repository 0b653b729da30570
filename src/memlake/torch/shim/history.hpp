#pragma once

// History: what torch.cuda.memory._record_memory_history() turned on, for the memory of one device. It keeps PyTorch's
// trace entries, and the stack of each live allocation.
//
// While a history is recorded, each call of memlake and its entries are made under one lock, so that the entries have
// the order of the calls. Stacks are gathered before the lock is taken: that needs Python's lock, and a thread that has
// it may wait for this one.

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "torch_types.hpp"

namespace memlake_torch {

/// The settings of the history; the same for all devices.
class HistorySettings {
 public:
  void set(bool is_on, CreateContextFn gather, size_t most_entries, RecordContext when,
           const std::vector<std::string>& skipped) {
    const std::lock_guard lock(mutex_);
    gather_.store(gather);
    when_.store(static_cast<int>(when));
    most_entries_.store(std::max<size_t>(most_entries, 1));
    skipped_ = std::set<std::string>(skipped.begin(), skipped.end());
    is_recording_.store(is_on);
  }
  void add_tracker(AllocatorTraceTracker tracker) {
    const std::lock_guard lock(mutex_);
    trackers_.push_back(std::move(tracker));
    has_trackers_.store(true);
  }

  /// Whether anything wants to know of an operation.
  bool is_wanted() const {
    return is_recording_.load(std::memory_order_relaxed) || has_trackers_.load(std::memory_order_relaxed);
  }
  bool is_recording() const { return is_recording_.load(); }
  size_t most_entries() const { return most_entries_.load(); }
  bool keeps_stacks_in_entries() const { return when_.load() >= static_cast<int>(RecordContext::ALLOC); }
  bool keeps(TraceEntry::Action action) const {
    const std::lock_guard lock(mutex_);
    return skipped_.empty() || skipped_.count(name_of(action)) == 0;
  }
  void track(const TraceEntry& entry) const {
    if (!has_trackers_.load()) return;
    std::vector<AllocatorTraceTracker> trackers;
    {
      const std::lock_guard lock(mutex_);
      trackers = trackers_;
    }
    for (const auto& tracker : trackers) tracker(entry);
  }

  /// The calling thread's stack if the history wants it at this level. Not to be called with a lock held.
  Context gather(RecordContext level) const {
    const CreateContextFn gather = gather_.load();
    if (!is_recording() || gather == nullptr || when_.load() < static_cast<int>(level)) return nullptr;
    return gather();
  }

 private:
  static const char* name_of(TraceEntry::Action action) {
    switch (action) {
      case TraceEntry::ALLOC:
        return "alloc";
      case TraceEntry::FREE_REQUESTED:
        return "free_requested";
      case TraceEntry::FREE_COMPLETED:
        return "free_completed";
      case TraceEntry::SEGMENT_ALLOC:
        return "segment_alloc";
      case TraceEntry::SEGMENT_FREE:
        return "segment_free";
      case TraceEntry::SEGMENT_MAP:
        return "segment_map";
      case TraceEntry::SEGMENT_UNMAP:
        return "segment_unmap";
      case TraceEntry::SNAPSHOT:
        return "snapshot";
      case TraceEntry::OOM:
        return "oom";
#if TORCH_VERSION_MINOR >= 14
      case TraceEntry::ANNOTATE:
        return "annotate";
#endif
    }
    return "";
  }

  std::atomic<bool> is_recording_{false};
  std::atomic<bool> has_trackers_{false};
  std::atomic<CreateContextFn> gather_{nullptr};
  std::atomic<int> when_{0};
  std::atomic<size_t> most_entries_{1};
  mutable std::mutex mutex_;  // guards the members below
  std::set<std::string> skipped_;
  std::vector<AllocatorTraceTracker> trackers_;
};

/// What a thread is doing, for its entries: torch.compile's context and the user's own text.
struct Labels {
  static std::vector<std::string>& compile_contexts() {
    thread_local std::vector<std::string> contexts;
    return contexts;
  }
  static std::string compile_context() {
    const auto& contexts = compile_contexts();
    return contexts.empty() ? std::string("N/A") : contexts.back();  // PyTorch's word
  }
};

class History {
 public:
  History(const HistorySettings& settings, DeviceIndex device) : settings_(settings), device_(device) {}

  /// Held during a call of memlake and the notes about it. A thread may lock it again, because PyTorch's callbacks free
  /// memory. memlake's own callback does not lock it: it runs under the lock of the pool.
  std::recursive_mutex order;

  void note(TraceEntry::Action action, size_t address, size_t size, cudaStream_t stream, PoolId pool, Context context,
            const std::string& metadata) {
    if (!settings_.is_wanted()) return;
    TraceEntry entry = entry_of(action, device_, address, size, stream, pool,
                                settings_.keeps_stacks_in_entries() ? std::move(context) : nullptr,
                                Labels::compile_context(), metadata);
    settings_.track(entry);
    if (!settings_.is_recording() || !settings_.keeps(action)) return;
    const std::lock_guard lock(mutex_);
    while (entries_.size() >= settings_.most_entries()) entries_.pop_front();
    entries_.push_back(std::move(entry));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }
  std::vector<TraceEntry> entries() const {
    const std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }

  void keep_stack(const void* address, Context context) {
    if (context == nullptr) return;
    const std::lock_guard lock(mutex_);
    stacks_[address] = std::move(context);
    has_stacks_.store(true);
  }
  Context stack_of(const void* address) const {
    if (!has_stacks()) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = stacks_.find(address);
    return found == stacks_.end() ? nullptr : found->second;
  }
  void drop_stack(const void* address) {
    Context dropped;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    const auto found = stacks_.find(address);
    if (found == stacks_.end()) return;
    dropped = std::move(found->second);
    stacks_.erase(found);
    has_stacks_.store(!stacks_.empty());
  }
  /// Whether the stack of any live allocation is kept.
  bool has_stacks() const { return has_stacks_.load(std::memory_order_relaxed); }

 private:
  const HistorySettings& settings_;
  const DeviceIndex device_;
  mutable std::mutex mutex_;                         // guards the members below; no other lock is taken under it
  std::deque<TraceEntry> entries_;                   // oldest first
  ska::flat_hash_map<const void*, Context> stacks_;  // of live allocations
  std::atomic<bool> has_stacks_{false};
};

/// Adds `others` to `entries`. Both are ordered by time; so is the result. Only the latest entries are kept: `most`, or
/// as many as `entries` has, if PyTorch's own allocator keeps more.
inline void merge_by_time(std::vector<TraceEntry>& entries, std::vector<TraceEntry> others, size_t most) {
  std::vector<TraceEntry> all;
  all.reserve(entries.size() + others.size());
  std::merge(std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()),
             std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()), std::back_inserter(all),
             [](const TraceEntry& a, const TraceEntry& b) { return a.time_.t_ < b.time_.t_; });
  most = std::max(most, entries.size());
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  entries = std::move(all);
}

}  // namespace memlake_torch
