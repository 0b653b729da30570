#pragma once

// Physical memory as a file that another process can import. The file has the bytes of a chunk or of a pool and, after
// them, one page with a header. Its length is sealed, so an importer can map it without the risk of a SIGBUS.
//
// A file lock shows whether an exported descriptor is still open in any process: every exported open file description
// holds a shared lock on the last byte. The kernel drops the lock when the last copy of the descriptor is closed.

#include <array>
#include <cstdint>
#include <optional>

#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

using Identity = std::array<unsigned char, 16>;

/// The content of a file: one chunk, or all the memory of a pool.
enum class Shared : std::uint32_t { chunk = 1, pool = 2 };

/// The content of the page after the bytes.
struct ShareableHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  Shared kind;
  std::int32_t device;  ///< ordinal in the exporting process; -1: host memory
  std::uint64_t size;
  Identity identity;  ///< random; an importer in the exporting process recognises the memory by it
  cuda::CUmemAllocationProp prop;
};

/// Makes a file for a chunk or a pool. Throws Refusal.
int make_shareable_file(Shared kind, int device, std::uint64_t size, const cuda::CUmemAllocationProp& prop,
                        Identity& identity);

/// Reads the header of an imported descriptor. Empty if the file was not made by the emulator, is damaged, or is of
/// another kind.
std::optional<ShareableHeader> read_shareable_header(int fd, Shared kind);

/// Makes a new open file description of the same file. It holds the lock until its last copy is closed. Throws Refusal.
int open_shared(int fd);

/// Whether a description made by open_shared() is still open in any process.
bool is_shared(int fd);

/// Marks a part of the bytes as used, or no longer used, with a lock of a description made by open_shared(). The lock
/// ends with the last copy of the description, also when the process is killed.
void note_use(int fd, std::uint64_t offset, std::uint64_t size, bool is_used);

/// Whether another description uses a part of these bytes.
bool is_used_elsewhere(int fd, std::uint64_t offset, std::uint64_t size);

}  // namespace memlake::emulator
