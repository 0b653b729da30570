#include "replay/out_of_memory.hpp"

#include <algorithm>

namespace memlake {

namespace {

Bytes difference(Bytes a, Bytes b) { return a > b ? a - b : Bytes{0}; }

OutOfMemoryReason reason_for(const OutOfMemoryPicture& picture, const Pool& pool, bool has_waited) {
  if (pool.failure().has_no_addresses) return OutOfMemoryReason::addresses;
  // Whoever waited and gave up all the same did not look at what the wait set free (torch issue 189504).
  if (has_waited && picture.largest_usable >= picture.requested) return OutOfMemoryReason::pending;
  const Bytes room = difference(pool.policy_space().device_total(), picture.held);
  const Bytes allowed = difference(std::min(pool.policy_space().device_total(), pool.limit()), picture.held);
  const Bytes within_reach = picture.free + allowed;
  if (within_reach >= picture.requested && picture.free.count > 0) return OutOfMemoryReason::contiguous_range;
  if (picture.pending.count > 0 && within_reach + picture.pending >= picture.requested)
    return OutOfMemoryReason::pending;
  if (allowed < room && picture.free + room >= picture.requested) return OutOfMemoryReason::limit;
  return OutOfMemoryReason::physical_memory;
}

}  // namespace

const char* reason_name(OutOfMemoryReason reason) noexcept {
  switch (reason) {
    case OutOfMemoryReason::physical_memory:
      return "no physical memory";
    case OutOfMemoryReason::contiguous_range:
      return "no contiguous range";
    case OutOfMemoryReason::pending:
      return "pending on a stream";
    case OutOfMemoryReason::limit:
      return "limit";
    case OutOfMemoryReason::addresses:
      return "no addresses";
  }
  return "";
}

OutOfMemoryPicture take_picture(const Pool& pool, Bytes requested, StreamId stream, bool has_waited) {
  const PoolStats stats = pool.stats();
  OutOfMemoryPicture picture{.requested = requested,
                             .stream = stream,
                             .held = stats.held.now,
                             .allocated = stats.allocated.now,
                             .pending = stats.active.now - stats.allocated.now,
                             .free = stats.held.now - stats.active.now,
                             .largest_free = pool.policy_space().largest_free(),
                             .largest_usable = pool.policy_space().largest_free(stream)};
  picture.reason = reason_for(picture, pool, has_waited);
  return picture;
}

}  // namespace memlake
