#include "system/ipc_handle.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "basics/refusal.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

constexpr std::array<char, 8> kFileMagic{'m', 'e', 'm', 'l', 'i', 'p', 'c', '\0'};
constexpr std::array<char, 8> kHandleMagic{'m', 'e', 'm', 'l', 'h', 'd', 'l', '\0'};
constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

/// What the 64 bytes of a handle hold.
struct Handle64 {
  std::array<char, 8> magic;
  IpcKind kind;
  std::int32_t process;
  std::int32_t fd;
  std::int32_t device;
  Identity identity;
};
static_assert(sizeof(Handle64) <= sizeof(CUipcMemHandle) && sizeof(Handle64) <= sizeof(CUipcEventHandle));

}  // namespace

OwnedFile::~OwnedFile() {
  if (fd_ >= 0) close(fd_);
}

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFile make_ipc_file(IpcKind kind, int device, std::uint64_t size, IpcHeader& header) {
  check_file_length(size);
  OwnedFile file(guarded_descriptor(memfd_create("memlake-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  header = {.magic = kFileMagic, .kind = kind, .device = device, .identity = {}};
  const bool is_made =
      getrandom(header.identity.data(), header.identity.size(), 0) == static_cast<ssize_t>(header.identity.size()) &&
      ftruncate(file.fd(), static_cast<off_t>(size)) == 0 &&
      pwrite(file.fd(), &header, sizeof header, 0) == sizeof header && fcntl(file.fd(), F_ADD_SEALS, kSeals) == 0;
  if (!is_made)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot make a file for an IPC handle: ", std::strerror(errno));
  return file;
}

void write_ipc_handle(void* bytes, const OwnedFile& file, const IpcHeader& header) {
  const Handle64 handle{kHandleMagic, header.kind, getpid(), file.fd(), header.device, header.identity};
  std::memset(bytes, 0, sizeof(CUipcMemHandle));
  std::memcpy(bytes, &handle, sizeof handle);
}

OwnedFile open_of_process(std::int32_t process, std::int32_t fd) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0 && (errno == ENOENT || errno == ENXIO || errno == ESRCH))
    refuse(CUDA_ERROR_INVALID_HANDLE, "process ", process, ", which made the handle, has freed the object or is gone");
  if (opened < 0) refuse(kMapFailed, "the system does not let this process open ", path, ": ", std::strerror(errno));
  return OwnedFile(guarded_descriptor(opened));
}

OpenedIpc open_ipc_handle(const void* bytes, IpcKind kind) {
  Handle64 handle{};
  std::memcpy(&handle, bytes, sizeof handle);
  if (handle.magic != kHandleMagic || handle.process <= 0 || handle.fd < 0) invalid("the bytes are no IPC handle");
  if (handle.kind != kind)
    invalid("the handle is one of ", handle.kind == IpcKind::event ? "an event" : "memory", ", not of ",
            kind == IpcKind::event ? "an event" : "memory");
  if (handle.process == getpid())
    refuse(CUDA_ERROR_INVALID_CONTEXT, "the handle was made in this process; only another process can open it");
  OwnedFile file = open_of_process(handle.process, handle.fd);
  IpcHeader header{};
  const int seals = fcntl(file.fd(), F_GET_SEALS);  // -1 for what is no memfd
  if (seals < 0 || (seals & kSeals) != kSeals || pread(file.fd(), &header, sizeof header, 0) != sizeof header ||
      header.magic != kFileMagic || header.kind != kind || header.identity != handle.identity)
    refuse(CUDA_ERROR_INVALID_HANDLE, "process ", handle.process, " has freed the object of the handle");
  return {std::move(file), header, handle.process};
}

}  // namespace memlake::emulator
