#pragma once

// The ladder of a request: what is tried, in order, when no free block serves it. Each space lists its rungs;
// pool/acquire.cpp climbs them.

#include <cstdint>
#include <span>

namespace memlake {

enum class Rung : std::uint8_t {
  // The pool does these two itself, because it has the list of pending blocks.
  wait_on_device,   ///< streams that own pending blocks wait on the device for the streams that still use them
  wait_for_events,  ///< the host waits until no block is pending

  // The space does all others.
  search,              ///< its free blocks, once more
  search_ordered,      ///< free memory of other streams that the program has ordered before this request
  collect_garbage,     ///< old free segments go back to the driver, above PyTorch's threshold
  grow,                ///< new memory
  grow_with_rest,      ///< new memory once more, if the driver refused: as much as it has left
  release_oversize,    ///< blocks above PyTorch's max_split_size go back, and new memory if they were enough
  release_cached,      ///< every free block goes back to the driver
  release_of_streams,  ///< free memory of other streams goes back, and then as `gather` and `grow`
  wait_for_threads,    ///< until the threads are done that are making memory in unlocked scopes
  wait_if_scarce,      ///< the host waits for streams if a bad placement would now mean out of memory
  gather_first,        ///< as `gather`, for requests that are large enough to prefer it to new memory
  gather,              ///< free memory that lies apart, mapped side by side
  gather_asking,       ///< the same if the driver has more memory now than it had
  gather_waiting,      ///< the same after the host has waited for the streams of free memory
  evict_views,         ///< cached views are unmapped if the driver refused, and then as `gather`
  make_small_room,     ///< a free chunk goes back if there is no room for a small segment
  release_for_small,   ///< a free chunk goes back, and the ladder begins again
  spill,               ///< memory of the host
};

using Ladder = std::span<const Rung>;

}  // namespace memlake
