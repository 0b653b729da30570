#pragma once

// The streams that Python passes to pools and buffers.

#include "integers.hpp"
#include "pool_objects.hpp"

namespace memlake::bindings {

using PyStream = Shared<StreamOwner>;

inline StreamName name_of_stream(const nb::int_& handle, const PyStream* owner, const nb::int_& device) {
  return {.handle = to_stream(handle),
          .owner = owner == nullptr ? nullptr : owner->share(),
          .device = to_count(device, "device")};
}

/// From now on the object needs no Python code. The default stream of a thread is another one in each thread, so its
/// object is not remembered.
inline void remember_stream(LivePool& pool, nb::handle object, const StreamName& stream) {
  if (stream.handle == kPerThreadStream) return;
  const KnownStream known = without_gil([&] { return pool.known_stream(stream); });
  StreamCache::of(pool).remember(object, known);
}

}  // namespace memlake::bindings
