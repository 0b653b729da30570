#pragma once

// PrivatePools: PyTorch's private pools on one device whose memory comes from memlake. Each is a graph pool in a pool
// of memlake's.
//
// PyTorch's own allocator goes on to count who uses a private pool; it is told of every begin, end and release, and
// gets no request. memlake's graph pool is in use exactly as long as that count is above 0. So the two agree also after
// the program has released a private pool while memlake was not installed: settle() finds out.

#include <memlake.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "routes.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

class PrivatePools {
 public:
  PrivatePools(DeviceIndex device, CUDAAllocator& native) : device_(device), native_(native) {}

  /// How many users PyTorch's own allocator counts; 0 if it does not know the private pool.
  int native_uses(PoolId id) const {
    try {
      return native_.getPoolUseCount(device_, id);
    } catch (const c10::Error&) {
      return 0;
    }
  }

  /// The program has made the private pool while memlake is installed. `is_native`: its memory must come from PyTorch's
  /// own allocator.
  void note_made(PoolId id, bool is_native) {
    const std::lock_guard lock(mutex_);
    pools_[id].is_native = is_native;
  }
  /// Memory that the private pool needs from now on must come from PyTorch's own allocator.
  void make_native(PoolId id) {
    const std::lock_guard lock(mutex_);
    pools_[id].is_native = true;
  }

  /// Whether the memory of a private pool comes from PyTorch's own allocator. That is also so if it is from before the
  /// installation.
  bool is_native(PoolId id) {
    const bool is_from_before = !is_known(id) && native_uses(id) > 0;
    const std::lock_guard lock(mutex_);
    if (!kHasFigures) forget_dead();
    PrivatePool& found = pools_[id];
    found.is_native = found.is_native || is_from_before;
    return found.is_native;
  }

  /// Requests go to the private pool from now on. Returns the pool of memlake's that has its memory. `pool`: for memory
  /// of a new one. pre: PyTorch's own allocator counts a user, else settle() would give it up at once.
  memlake_pool* use(PoolId id, memlake_pool* pool) {
    const std::lock_guard lock(mutex_);
    PrivatePool& found = pools_[id];
    ++found.begins;
    if (used_.count(id) == 0) {
      if (found.memory == nullptr) found.memory = pool;
      TORCH_CHECK(memlake_pool_use_graph(found.memory, id.first, id.second) == MEMLAKE_OK,
                  "memlake: ", memlake_last_error());
      // A request during a capture changes that.
      memlake_pool_set_captured(found.memory, id.first, id.second, 0);
      used_.insert(id);
      memories_.insert(found.memory);
      has_any_.store(true);
    }
    return found.memory;
  }

  /// Gives up the private pools without a user. Their free memory goes when memory is short, or in empty().
  void settle() {
    if (!has_any()) return;
    std::vector<std::pair<PoolId, uint64_t>> ended = used();
    ended.erase(
        std::remove_if(ended.begin(), ended.end(), [this](const auto& use) { return native_uses(use.first) > 0; }),
        ended.end());
    if (ended.empty()) return;
    const std::lock_guard lock(mutex_);
    if (kHasFigures) count_held();
    for (const auto& [id, begins] : ended) {
      PrivatePool& pool = pools_[id];
      // Another thread may have begun to use it after the count was looked at.
      if (used_.count(id) == 0 || pool.begins != begins) continue;
      memlake_pool_release_graph(pool.memory, id.first, id.second, 0);
      used_.erase(id);
    }
  }

  /// Gives the free memory of a private pool without a user back.
  void empty(PoolId id) {
    if (memlake_pool* const memory = memory_of(id)) memlake_pool_empty_graph(memory, id.first, id.second);
  }

  /// Null if memlake has no memory of it.
  memlake_pool* memory_of(PoolId id) const {
    if (!has_any()) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(id);
    return found == pools_.end() ? nullptr : found->second.memory;
  }
  bool has_any() const { return has_any_.load(std::memory_order_relaxed); }

  /// Whether requests of the default pool may take its free memory rather than fail.
  void set_used_on_oom(PoolId id, bool is_on) {
    const std::lock_guard lock(mutex_);
    pools_[id].is_used_on_oom = is_on;
  }
  std::vector<Target> used_on_oom() const {
    std::vector<Target> targets;
    const std::lock_guard lock(mutex_);
    for (const PoolId id : used_)
      if (const PrivatePool& pool = pools_.at(id); pool.is_used_on_oom) targets.push_back({id, pool.memory});
    return targets;
  }

  // ---- PyTorch's figure reserved_bytes_by_private_pools, since 2.13

  /// To be called before memory is given back.
  void note_held() {
    if (!kHasFigures || !has_any()) return;
    const std::lock_guard lock(mutex_);
    count_held();
  }

  template <class Stats>
  void add_to([[maybe_unused]] Stats& stats) {
    if constexpr (HasFigures<Stats>) {
      if (!has_any()) return;
      const std::lock_guard lock(mutex_);
      count_held();
      for (const auto& [id, pool] : pools_) {
        if (!pool.has_held) continue;
        StatArray& sum = stats.reserved_bytes_by_private_pools[id];
        for (size_t k = 0; k < 3; ++k) {
          sum[k].current += pool.held[k].current;
          sum[k].peak += pool.held[k].peak;
          sum[k].allocated += pool.held[k].allocated;
          sum[k].freed += pool.held[k].freed;
        }
      }
    }
  }
  void reset_peaks() {
    for_each_held([](Stat& held) { held.reset_peak(); });
  }
  void reset_totals() {
    for_each_held([](Stat& held) { held.reset_accumulated(); });
  }

 private:
  struct PrivatePool {
    memlake_pool* memory = nullptr;  // null: no request yet, or it is native
    bool is_native = false;
    uint64_t begins = 0;  // how often use() was called
    bool is_used_on_oom = false;
    bool has_held = false;  // it has held memory at some time
    // Of all memory, of that for small requests, and of that for large ones; as it was when it was last looked at: when
    // figures are asked or reset, and before the memory is given back.
    StatArray held{};
  };

  template <class Stats>
  static constexpr bool HasFigures = requires(Stats stats) { stats.reserved_bytes_by_private_pools; };
  static constexpr bool kHasFigures = HasFigures<DeviceStats>;

  bool is_known(PoolId id) const {
    const std::lock_guard lock(mutex_);
    return pools_.count(id) != 0;
  }

  /// Those in use, and how often their use has begun.
  std::vector<std::pair<PoolId, uint64_t>> used() const {
    std::vector<std::pair<PoolId, uint64_t>> uses;
    const std::lock_guard lock(mutex_);
    for (const PoolId id : used_) uses.emplace_back(id, pools_.at(id).begins);
    return uses;
  }

  template <class Reset>
  void for_each_held(Reset reset) {
    if (!kHasFigures || !has_any()) return;
    const std::lock_guard lock(mutex_);
    count_held();
    for (auto& [id, pool] : pools_)
      for (Stat& held : pool.held) reset(held);
  }

  /// Forgets private pools that have ended. PyTorch's own allocator goes on to show those of which it has figures. pre:
  /// the lock is held.
  void forget_dead() {
    for (auto at = pools_.begin(); at != pools_.end();) {
      const auto& [id, pool] = *at;
      memlake_graph_stats_t stats{};
      stats.struct_size = sizeof(stats);
      const bool is_dead = pool.memory != nullptr && used_.count(id) == 0 &&
                           memlake_pool_graph_stats(pool.memory, id.first, id.second, &stats) == MEMLAKE_OK &&
                           stats.held == 0;
      at = is_dead ? pools_.erase(at) : std::next(at);
    }
  }

  /// Looks at what they hold now. The time does not depend on the number of those that have ended. pre: the lock is
  /// held.
  void count_held() {
    std::map<PoolId, std::array<int64_t, 3>> now;
    for (const PoolId id : holding_) now[id] = {};
    for (memlake_pool* const memory : memories_)
      for_each_block(memory, [&](const memlake_block_t& block, PoolId id) {
        if (id == kDefaultPool) return;
        now[id][0] += static_cast<int64_t>(block.size);
        now[id][block.is_small != 0 ? 1 : 2] += static_cast<int64_t>(block.size);
      });
    holding_.clear();
    for (const auto& [id, bytes] : now) {
      const auto found = pools_.find(id);
      if (found == pools_.end()) continue;
      PrivatePool& pool = found->second;
      for (size_t k = 0; k < 3; ++k) {
        const int64_t more = bytes[k] - pool.held[k].current;
        if (more > 0) pool.held[k].increase(static_cast<size_t>(more));
        if (more < 0) pool.held[k].decrease(static_cast<size_t>(-more));
      }
      if (bytes[0] == 0) continue;
      pool.has_held = true;
      holding_.insert(id);
    }
  }

  const DeviceIndex device_;
  CUDAAllocator& native_;
  std::atomic<bool> has_any_{false};
  mutable std::mutex mutex_;             // guards the map; PyTorch's own allocator is not called under it
  std::map<PoolId, PrivatePool> pools_;  // with those that have ended, if PyTorch has figures of them
  std::set<PoolId> used_;                // whose graph pools of memlake's are in use
  std::set<PoolId> holding_;             // that held memory when it was last looked at
  std::set<memlake_pool*> memories_;     // the memory of any
};

}  // namespace memlake_torch
