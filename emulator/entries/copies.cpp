// Copies and fills. Access is checked at the call, and again when the stream reaches the work and the bytes are copied.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

enum class Side { host, device, any };

struct Place {
  std::uint64_t address;
  Side side;
  const Context* context;  ///< whose copy engine touches it
};

/// The bytes of one copy that the destination really has, where the emulator sees them. A source without backing reads
/// as zeros.
struct Move {
  std::uint64_t destination;
  std::uint64_t source;
  std::uint64_t size;
  bool is_zero;
};

void check_side(const MemoryMap& memory, const Place& place, const char* name) {
  if (place.address == 0) invalid("the ", name, " is NULL");
  if (place.side == Side::host && memory.is_device_address(place.address))
    invalid("the ", name, " ", Hex{place.address}, " is device memory, where host memory is expected");
  if (place.side == Side::device && !memory.is_device_reachable(place.address))
    invalid("the ", name, " ", Hex{place.address}, " is not device memory");
}

void check_touch(const MemoryMap& memory, const Place& place, std::uint64_t size, bool is_write) {
  const std::string refusal =
      memory.why_not_copy(*place.context, {place.address, size, is_write}, MemoryMap::Moment::call);
  if (!refusal.empty()) invalid(refusal);
}

std::vector<Move> plan_moves(const MemoryMap& memory, std::uint64_t destination, std::uint64_t source,
                             std::uint64_t size) {
  const auto to = memory.stretches(destination, size);
  const auto from = memory.stretches(source, size);
  std::vector<Move> moves;
  for (const Stretch& target : to) {
    if (target.bytes == 0) continue;
    for (const Stretch& origin : from) {
      const std::uint64_t target_start = target.address - destination;
      const std::uint64_t origin_start = origin.address - source;
      const std::uint64_t start = std::max(target_start, origin_start);
      const std::uint64_t end = std::min(target_start + target.size, origin_start + origin.size);
      if (start < end)
        moves.push_back({target.bytes + (start - target_start), origin.bytes + (start - origin_start), end - start,
                         origin.bytes == 0});
    }
  }
  return moves;
}

void run(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    auto* destination = reinterpret_cast<void*>(move.destination);
    if (move.is_zero) {
      std::memset(destination, 0, move.size);
    } else {
      std::memmove(destination, reinterpret_cast<const void*>(move.source), move.size);
    }
  }
}

/// Asked again when the work's turn comes: a device may have been closed, or memory unmapped under it (inflight_unmap).
auto recheck(Driver& driver, Place place, std::uint64_t size, bool is_write) {
  const bool was_pinned = driver.memory.is_pinned(place.address, size);
  return [&driver, place, size, is_write, was_pinned, context = place.context->handle]() -> std::string {
    const Context* alive = driver.contexts.find(context);
    if (alive == nullptr) return "its context is gone";
    if (was_pinned && !driver.memory.is_pinned(place.address, size))
      return text("the pinned host memory at ", Hex{place.address}, " is gone");
    return driver.memory.why_not_copy(*alive, {place.address, size, is_write}, MemoryMap::Moment::work);
  };
}

void run_and_wait(Session& session, Stream& stream, Work work) {
  const std::uint64_t context = stream.context;
  session.driver.streams.run_and_wait(session.lock, stream, std::move(work));
  session.driver.contexts.check_alive(context);  // work in front may have failed, and then nothing was copied
}

enum class Completes { later, before_return };

void copy(Session& session, CUstream stream_handle, Place destination, Place source, std::uint64_t size,
          Completes completes) {
  Driver& driver = session.driver;
  Stream& stream = driver.streams.find(stream_handle);
  if (size == 0) return;
  const Context& own = *driver.contexts.find(stream.context);
  if (destination.context == nullptr) destination.context = &own;
  if (source.context == nullptr) source.context = &own;
  check_side(driver.memory, destination, "destination");
  check_side(driver.memory, source, "source");
  check_touch(driver.memory, destination, size, true);
  check_touch(driver.memory, source, size, false);

  Work work{.name = text(session.origin.call, " of ", size, " bytes from ", Hex{source.address}, " to ",
                         Hex{destination.address}),
            .origin = session.origin,
            .touches = {{destination.address, size, true}, {source.address, size, false}}};
  driver.pools.check_made(stream, work.touches);
  const auto is_pageable = [&](const Place& place) {
    return !driver.memory.is_device_address(place.address) && !driver.memory.is_pinned(place.address, size);
  };
  std::uint64_t from = source.address;
  std::shared_ptr<std::vector<char>> staged;
  if (completes == Completes::later && is_pageable(source) && driver.memory.has_bytes(destination.address, size)) {
    // The program may change or free pageable memory once the call returns, so its bytes are taken now.
    const auto* bytes = reinterpret_cast<const char*>(source.address);
    staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
    from = reinterpret_cast<std::uint64_t>(staged->data());
    work.touches.pop_back();
  }
  const auto moves = std::make_shared<std::vector<Move>>();
  work.check = [&driver, moves, to = destination.address, from, size,
                of_destination = recheck(driver, destination, size, true),
                of_source = recheck(driver, source, size, false)] {
    std::string refusal = of_destination();
    if (refusal.empty()) refusal = of_source();
    if (refusal.empty()) *moves = plan_moves(driver.memory, to, from, size);
    return refusal;
  };
  work.body = [moves, staged] { run(*moves); };
  // A copy to pageable memory returns when the bytes are there, also when it is called asynchronous.
  if (completes == Completes::before_return || is_pageable(destination)) {
    run_and_wait(session, stream, std::move(work));
  } else {
    driver.streams.enqueue(stream, std::move(work));
  }
}

template <class Element>
void fill(Session& session, CUstream stream_handle, CUdeviceptr destination, Element value, size_t count) {
  Driver& driver = session.driver;
  Stream& stream = driver.streams.find(stream_handle);
  if (destination % sizeof(Element) != 0)
    invalid("the destination ", Hex{destination}, " is not aligned to ", sizeof(Element), " bytes");
  if (count > SIZE_MAX / sizeof(Element)) invalid("count ", count, " is too large");
  const std::uint64_t size = count * sizeof(Element);
  if (size == 0) return;
  const Place place{destination, Side::device, driver.contexts.find(stream.context)};
  check_side(driver.memory, place, "destination");
  check_touch(driver.memory, place, size, true);
  Work work{.name = text(session.origin.call, " of ", size, " bytes at ", Hex{destination}),
            .origin = session.origin,
            .touches = {{destination, size, true}}};
  driver.pools.check_made(stream, work.touches);
  const auto stretches = std::make_shared<std::vector<Stretch>>();
  work.check = [&driver, stretches, destination, size, of_destination = recheck(driver, place, size, true)] {
    std::string refusal = of_destination();
    if (refusal.empty()) *stretches = driver.memory.stretches(destination, size);
    return refusal;
  };
  work.body = [stretches, value] {
    for (const Stretch& stretch : *stretches) {
      if (stretch.bytes == 0) continue;
      auto* elements = reinterpret_cast<Element*>(stretch.bytes);
      std::fill(elements, elements + stretch.size / sizeof(Element), value);
    }
  };
  // Memsets, also the ones without a stream, do not wait (unless the target is host memory).
  if (driver.memory.is_device_address(destination)) {
    driver.streams.enqueue(stream, std::move(work));
  } else {
    run_and_wait(session, stream, std::move(work));
  }
}

Place device_place(CUdeviceptr address) { return {address, Side::device, nullptr}; }
Place any_place(CUdeviceptr address) { return {address, Side::any, nullptr}; }
Place host_place(const void* pointer) { return {reinterpret_cast<std::uint64_t>(pointer), Side::host, nullptr}; }

Place peer_place(Session& session, CUdeviceptr address, CUcontext context) {
  const Context* found = session.driver.contexts.find(context);
  if (found == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
  return {address, Side::device, found};
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpy, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, nullptr, any_place(destination), any_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyAsync, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, stream, any_place(destination), any_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  return enter(Call::cuMemcpyHtoD_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, nullptr, device_place(destination), host_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyHtoDAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, stream, device_place(destination), host_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpyDtoH_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, nullptr, host_place(destination), device_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyDtoHAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, stream, host_place(destination), device_place(source), bytes, Completes::later);
  });
}

// A copy inside devices does not block the host.
MEMLAKE_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpyDtoD_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, nullptr, device_place(destination), device_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyDtoDAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, stream, device_place(destination), device_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                     CUcontext source_context, size_t bytes) {
  return enter(Call::cuMemcpyPeer, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, nullptr, peer_place(session, destination, destination_context),
         peer_place(session, source, source_context), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                          CUcontext source_context, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyPeerAsync, MEMLAKE_CALLER, [&](Session& session) {
    copy(session, stream, peer_place(session, destination, destination_context),
         peer_place(session, source, source_context), bytes, Completes::later);
  });
}

#define MEMLAKE_FILL(symbol, type)                                                                            \
  MEMLAKE_EXPORT CUresult symbol##_v2(CUdeviceptr destination, type value, size_t count) {                    \
    return enter(Call::symbol##_v2, MEMLAKE_CALLER,                                                           \
                 [&](Session& session) { fill(session, nullptr, destination, value, count); });               \
  }                                                                                                           \
  MEMLAKE_EXPORT CUresult symbol##Async(CUdeviceptr destination, type value, size_t count, CUstream stream) { \
    return enter(Call::symbol##Async, MEMLAKE_CALLER,                                                         \
                 [&](Session& session) { fill(session, stream, destination, value, count); });                \
  }

MEMLAKE_FILL(cuMemsetD8, unsigned char)
MEMLAKE_FILL(cuMemsetD16, unsigned short)
MEMLAKE_FILL(cuMemsetD32, unsigned)
#undef MEMLAKE_FILL

}  // namespace memlake::emulator
