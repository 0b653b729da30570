#pragma once

// OutOfMemoryPicture: what the pool looked like when a request found no memory, and why it found none.

#include <cstdint>

#include "pool/pool.hpp"

namespace memlake {

enum class OutOfMemoryReason {
  physical_memory,   ///< too little is free, wherever it lies
  contiguous_range,  ///< enough is free, but not in one piece that the request may use
  pending,           ///< enough would be free, but another stream had not passed yet
  limit,             ///< the device has it, the limit forbids it
  addresses,         ///< no range of addresses is left to map memory to
};

/// The reason's name as Python shows it.
const char* reason_name(OutOfMemoryReason reason) noexcept;

struct OutOfMemoryPicture {
  std::uint64_t row = 0;
  Bytes requested;
  StreamId stream = 0;
  OutOfMemoryReason reason = OutOfMemoryReason::physical_memory;
  Bytes held;
  Bytes allocated;       ///< live blocks with slack
  Bytes pending;         ///< freed, but awaited by another stream
  Bytes free;            ///< held and in no use, of any stream and size
  Bytes largest_free;    ///< the largest piece of it
  Bytes largest_usable;  ///< the largest piece that the request's stream may use
};

/// Looks at a pool whose `allocate` has just returned null. `has_waited`: the host waited for something that was not
/// complete, during that call.
OutOfMemoryPicture take_picture(const Pool& pool, Bytes requested, StreamId stream, bool has_waited);

}  // namespace memlake
