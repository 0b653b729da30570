#pragma once

// PyTorch's statistics of a device: those of its own allocator (private pools, memory from before the installation) and
// those of memlake's pool, as one.

#include <memlake.h>

#include "torch_types.hpp"

namespace memlake_torch {

inline void add(Stat& sum, const memlake_count_t& count) {
  sum.current += count.current;
  sum.peak += count.peak;
  sum.allocated += count.allocated;
  sum.freed += count.freed;
}

inline void add(StatArray& sums, const memlake_count_t (&counts)[3]) {
  for (size_t k = 0; k < 3; ++k) add(sums[k], counts[k]);
}

inline void add(DeviceStats& sum, const memlake_pool_counts_t& counts) {
  add(sum.allocation, counts.allocations);
  add(sum.segment, counts.segments);
  add(sum.active, counts.active);
  add(sum.inactive_split, counts.inactive_splits);
  add(sum.allocated_bytes, counts.allocated_bytes);
  add(sum.reserved_bytes, counts.held_bytes);
  add(sum.active_bytes, counts.active_bytes);
  add(sum.inactive_split_bytes, counts.inactive_split_bytes);
  add(sum.requested_bytes, counts.requested_bytes);
  sum.num_alloc_retries += static_cast<int64_t>(counts.num_retries);
  sum.num_ooms += static_cast<int64_t>(counts.num_ooms);
  sum.num_device_alloc += static_cast<int64_t>(counts.num_device_allocations);
  sum.num_device_free += static_cast<int64_t>(counts.num_device_frees);
  sum.num_sync_all_streams += static_cast<int64_t>(counts.num_host_waits);
}

}  // namespace memlake_torch
