#pragma once

// Handles of legacy IPC: 64 bytes that the program copies to another process by any means, so no descriptor travels
// with them. A handle names a file that its process has open: the process, the number of the descriptor there, and a
// random identity, which the file has in its first bytes. The other process opens the file through /proc. So nothing
// stays behind when a process is killed, and a handle is void when its process has closed the file.

#include <array>
#include <cstdint>
#include <utility>

#include "cuda/ipc_abi.hpp"
#include "system/shareable.hpp"

namespace memlake::emulator {

inline constexpr auto kMapFailed = static_cast<cuda::CUresult>(205);  // CUDA_ERROR_MAP_FAILED

enum class IpcKind : std::uint32_t { memory = 1, event = 2 };

/// The first bytes of a file that a handle can name.
struct IpcHeader {
  std::array<char, 8> magic;
  IpcKind kind;
  std::int32_t device;  ///< ordinal in the process that made it
  Identity identity;
};

/// A file descriptor that is closed with its owner. Move-only.
class OwnedFile {
 public:
  OwnedFile() = default;
  explicit OwnedFile(int fd) : fd_(fd) {}
  ~OwnedFile();
  OwnedFile(OwnedFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OwnedFile& operator=(OwnedFile&& other) noexcept;

  [[nodiscard]] int fd() const { return fd_; }
  /// Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Makes a file of `size` bytes that begins with a new header. Throws Refusal.
OwnedFile make_ipc_file(IpcKind kind, int device, std::uint64_t size, IpcHeader& header);

/// Fills the 64 bytes of a handle for a file that make_ipc_file() made.
void write_ipc_handle(void* bytes, const OwnedFile& file, const IpcHeader& header);

struct OpenedIpc {
  OwnedFile file;
  IpcHeader header;
  std::int32_t process;
};

/// Opens the file that a handle names. Throws Refusal: 1 for bytes that are no handle of this kind, 201 for a handle of
/// this process, 400 for a handle whose object or process is gone, 205 if the system does not let us open the file.
OpenedIpc open_ipc_handle(const void* bytes, IpcKind kind);

/// Opens another descriptor of that process. Throws as open_ipc_handle().
OwnedFile open_of_process(std::int32_t process, std::int32_t fd);

}  // namespace memlake::emulator
