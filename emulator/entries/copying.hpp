#pragma once

// Copies and fills as all their functions submit them. Access is checked at the call, and again when the stream reaches
// the work and the bytes are copied.

#include "entries/entry.hpp"
#include "process/transfer.hpp"

namespace memlake::emulator {

/// Synchronous functions that do not wait for work inside devices do so nevertheless if the memory or the context asks
/// for it (SYNC_MEMOPS): later_unless_synced.
enum class Completes { later, later_unless_synced, before_return };

/// Submits a copy. A place without a context is accessed by the stream's own. Throws Refusal before anything has
/// happened.
void copy(Session& session, CUstream stream, Box destination, Box source, const Extent& extent, Completes completes);

/// Submits a copy of one row, as copy().
inline void copy_line(Session& session, CUstream stream, const Place& destination, const Place& source, size_t bytes,
                      Completes completes) {
  copy(session, stream, {destination}, {source}, {bytes}, completes);
}

/// Rows of elements.
struct Rows {
  size_t count;  ///< elements in a row
  size_t height = 1;
};

/// Fills rows of elements of 1, 2 or 4 bytes each.
void fill(Session& session, CUstream stream, Box destination, unsigned value, unsigned element, const Rows& rows,
          Completes completes);

/// Waits until the work has run. Throws what lost the context meanwhile.
void run_and_wait(Session& session, Stream& stream, Work work);

inline Place device_place(CUdeviceptr address) { return {address, Side::device, nullptr}; }
inline Place any_place(CUdeviceptr address) { return {address, Side::any, nullptr}; }
inline Place host_place(const void* pointer) { return {reinterpret_cast<std::uint64_t>(pointer), Side::host, nullptr}; }

/// The box of an array from the byte `x` of row `y` of plane `z` on. Throws 1 if the extent is not in the array.
Box array_box(Session& session, CUarray array, std::uint64_t x, std::uint64_t y, std::uint64_t z, const Extent& extent);

/// A place that the copy engine of another context accesses.
Place peer_place(Session& session, CUdeviceptr address, CUcontext context);

}  // namespace memlake::emulator
