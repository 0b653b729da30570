#pragma once

// PyTorch's statistics of a device: those of its own allocator (private pools, memory from before the installation) and
// those of memlake's pool, as one. The pool is told what PyTorch's allocator has, so that its peaks are those of both.

#include <memlake.h>

#include <algorithm>

#include "torch_types.hpp"

namespace memlake_torch {

/// All zero if the pool cannot be asked.
inline memlake_pool_stats_t stats_of(memlake_pool* pool) {
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof(stats);
  memlake_pool_stats(pool, &stats);
  return stats;
}

inline memlake_pool_counts_t counts_of(memlake_pool* pool) {
  memlake_pool_counts_t counts{};
  counts.struct_size = sizeof(counts);
  memlake_pool_counts(pool, &counts);
  return counts;
}

/// Calls `visit(torch's array, memlake's array)` for each level.
template <class Stats, class Counts, class Visit>
void for_each_level(Stats& stats, Counts& counts, Visit visit) {
  visit(stats.allocation, counts.allocations);
  visit(stats.segment, counts.segments);
  visit(stats.active, counts.active);
  visit(stats.inactive_split, counts.inactive_splits);
  visit(stats.allocated_bytes, counts.allocated_bytes);
  visit(stats.reserved_bytes, counts.held_bytes);
  visit(stats.active_bytes, counts.active_bytes);
  visit(stats.inactive_split_bytes, counts.inactive_split_bytes);
  visit(stats.requested_bytes, counts.requested_bytes);
}

/// Adds memlake's counts to the statistics of PyTorch's allocator. The peaks of the counts are those of both.
inline void add(DeviceStats& sum, const memlake_pool_counts_t& counts) {
  for_each_level(sum, counts, [](StatArray& stats, const memlake_count_t(&levels)[3]) {
    for (size_t k = 0; k < 3; ++k) {
      stats[k].current += levels[k].current;
      stats[k].peak = std::max(stats[k].peak, levels[k].peak);
      stats[k].allocated += levels[k].allocated;
      stats[k].freed += levels[k].freed;
    }
  });
  sum.num_alloc_retries += static_cast<int64_t>(counts.num_retries);
  sum.num_ooms += static_cast<int64_t>(counts.num_ooms);
  sum.num_device_alloc += static_cast<int64_t>(counts.num_device_allocations);
  sum.num_device_free += static_cast<int64_t>(counts.num_device_frees);
  sum.num_sync_all_streams += static_cast<int64_t>(counts.num_host_waits);
}

/// No peak is below the present value. A pool is not told of changes outside it while memlake is uninstalled.
inline void raise_peaks(DeviceStats& stats) {
  memlake_pool_counts_t none{};
  for_each_level(stats, none, [](StatArray& levels, const memlake_count_t(&)[3]) {
    for (Stat& level : levels) level.peak = std::max(level.peak, level.current);
  });
}

/// Tells the pool what PyTorch's own allocator has now.
inline void tell_outside(memlake_pool* pool, const DeviceStats& native) {
  memlake_pool_counts_t outside{};
  outside.struct_size = sizeof(outside);
  for_each_level(native, outside, [](const StatArray& stats, memlake_count_t(&levels)[3]) {
    for (size_t k = 0; k < 3; ++k) levels[k].current = stats[k].current;
  });
  memlake_pool_count_outside(pool, &outside);
}

}  // namespace memlake_torch
