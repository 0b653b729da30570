#include "system/shareable.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>

#include "basics/refusal.hpp"
#include "basics/rights.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

constexpr std::array<char, 8> kMagic{'m', 'e', 'm', 'l', 'a', 'k', 'e', '\0'};
constexpr std::uint32_t kVersion = 2;
constexpr std::uint64_t kHeaderRoom = 4096;
constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

static_assert(std::is_trivially_copyable_v<ShareableHeader> && sizeof(ShareableHeader) <= kHeaderRoom);

flock lock_of(std::uint64_t offset, std::uint64_t size, short type) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(size);
  return lock;
}

flock last_byte(std::uint64_t file_size, short type) { return lock_of(file_size - 1, 1, type); }

std::uint64_t file_size(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// Every process with the descriptor can write the header, so its values are checked before they are used.
bool is_consistent(const ShareableHeader& header) {
  const cuda::CUmemAllocationProp& prop = header.prop;
  const bool is_on_device = prop.location.type == cuda::CU_MEM_LOCATION_TYPE_DEVICE;
  const bool is_on_host = prop.location.type == cuda::CU_MEM_LOCATION_TYPE_HOST_NUMA && header.device == kHost;
  return prop.type == cuda::CU_MEM_ALLOCATION_TYPE_PINNED && prop.win32HandleMetaData == nullptr &&
         prop.requestedHandleTypes == cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
         ((is_on_device && prop.location.id == header.device && header.device != kHost) || is_on_host);
}

}  // namespace

int make_shareable_file(Shared kind, int device, std::uint64_t size, const cuda::CUmemAllocationProp& prop,
                        Identity& identity) {
  check_file_length(size + kHeaderRoom);
  const char* name = kind == Shared::chunk ? "memlake-chunk" : "memlake-pool";
  const int fd = guarded_descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ShareableHeader header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.kind = kind;
  header.device = device;
  header.size = size;
  header.prop = prop;
  header.prop.win32HandleMetaData = nullptr;
  const bool is_made =
      getrandom(header.identity.data(), header.identity.size(), 0) == static_cast<ssize_t>(header.identity.size()) &&
      ftruncate(fd, static_cast<off_t>(size + kHeaderRoom)) == 0 &&
      pwrite(fd, &header, sizeof header, static_cast<off_t>(size)) == sizeof header &&
      fcntl(fd, F_ADD_SEALS, kSeals) == 0;
  if (!is_made) {
    const int error = errno;
    close(fd);
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot make a file for exportable memory: ", std::strerror(error));
  }
  identity = header.identity;
  return fd;
}

std::optional<ShareableHeader> read_shareable_header(int fd, Shared kind) {
  const std::uint64_t length = file_size(fd);
  const int seals = fcntl(fd, F_GET_SEALS);  // -1 for what is no memfd
  if (length <= kHeaderRoom || seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  ShareableHeader header{};
  if (pread(fd, &header, sizeof header, static_cast<off_t>(length - kHeaderRoom)) != sizeof header) return std::nullopt;
  if (header.magic != kMagic || header.version != kVersion || header.size != length - kHeaderRoom) return std::nullopt;
  return header.kind == kind && is_consistent(header) ? std::optional(header) : std::nullopt;
}

int open_shared(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int shared = guarded_descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
  flock lock = last_byte(file_size(fd), F_RDLCK);
  fcntl(shared, F_OFD_SETLK, &lock);  // cannot conflict: nobody takes this lock for writing
  return shared;
}

bool is_shared(int fd) {
  flock lock = last_byte(file_size(fd), F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void note_use(int fd, std::uint64_t offset, std::uint64_t size, bool is_used) {
  flock lock = lock_of(offset, size, is_used ? F_RDLCK : F_UNLCK);
  fcntl(fd, F_OFD_SETLK, &lock);  // cannot conflict: nobody takes these locks for writing
}

bool is_used_elsewhere(int fd, std::uint64_t offset, std::uint64_t size) {
  flock lock = lock_of(offset, size, F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace memlake::emulator
