#pragma once

// The ladder of a request: the ordered list of attempts when no free block serves it. Each space lists its rungs;
// pool/acquire.cpp tries them in order.

#include <cstdint>
#include <span>

namespace memlake {

enum class Rung : std::uint8_t {
  // The pool does these two itself, because it has the list of pending blocks.
  wait_on_device,   ///< streams that own pending blocks wait on the device for the streams that still use them
  wait_for_events,  ///< the host waits until no block is pending

  // The space does all others.
  search,              ///< searches its free blocks once more
  search_ordered,      ///< free memory of other streams that the program has ordered before this request
  collect_garbage,     ///< releases old free segments, above PyTorch's threshold
  grow,                ///< new memory
  grow_with_rest,      ///< new memory once more after a refusal, no more than the driver has left
  release_oversize,    ///< releases blocks from PyTorch's max_split_size on, then new memory if they were enough
  release_cached,      ///< releases every free block to the driver
  release_of_streams,  ///< releases free memory of other streams, then as `gather` and `grow`
  wait_for_threads,    ///< waits until the threads that create memory in unlocked scopes are done
  gather_first,        ///< as `gather`, for requests that are large enough to prefer it to new memory
  gather,              ///< maps free memory that lies apart side by side
  gather_asking,       ///< gathers if the driver has more memory now than it had
  gather_waiting,      ///< gathers after the host has waited for the streams of free memory
  evict_views,         ///< unmaps cached views if the driver refused, then as `gather`
  make_small_room,     ///< releases a free chunk if there is no room for a small segment
  release_for_small,   ///< releases a free chunk, then the ladder begins again
  spill,               ///< host memory
};

using Ladder = std::span<const Rung>;

}  // namespace memlake
