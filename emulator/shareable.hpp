#pragma once

// Physical memory as a file that another process can import. The file holds the bytes of a chunk or of a pool and,
// behind them, one page that says what it is. Its length is sealed, so an importer can map it without fear of a fault.
//
// Whether an exported descriptor is still open somewhere, in this process or another, is asked through a lock: every
// exported description holds a shared lock on the last byte, and it goes when the last copy of that descriptor is
// closed.

#include <array>
#include <cstdint>
#include <optional>

#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

using Identity = std::array<unsigned char, 16>;

/// What the bytes of a file are: one chunk, or all the memory of a pool, of which allocations are pieces.
enum class Shared : std::uint32_t { chunk = 1, pool = 2 };

/// The page behind the bytes.
struct ShareableHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  Shared kind;
  std::int32_t device;  ///< ordinal in the exporting process; -1: host memory
  std::uint64_t size;
  Identity identity;  ///< random; tells an importer in the same process that it knows this chunk already
  cuda::CUmemAllocationProp prop;
};

/// A new file for a chunk or a pool. Throws Refusal.
int make_shareable_file(Shared kind, int device, std::uint64_t size, const cuda::CUmemAllocationProp& prop,
                        Identity& identity);

/// What a descriptor from outside is; empty if it is not one of ours, not of this kind, or is damaged.
std::optional<ShareableHeader> read_shareable_header(int fd, Shared kind);

/// A new open file description of the same file, which holds the lock until its last copy is closed. Throws Refusal.
int open_shared(int fd);

/// Is a description made by open_shared() still open, anywhere?
bool is_shared(int fd);

/// Notes through a description made by open_shared() that it uses a part of the bytes, or that it no longer does. The
/// note goes with the last copy of the description, so also with a process that is killed.
void note_use(int fd, std::uint64_t offset, std::uint64_t size, bool is_used);

/// Does another description use a part of these bytes?
bool is_used_elsewhere(int fd, std::uint64_t offset, std::uint64_t size);

}  // namespace memlake::emulator
