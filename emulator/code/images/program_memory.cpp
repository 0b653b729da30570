#include "code/images/program_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "basics/refusal.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kLargestImage = std::uint64_t{1} << 30;

/// A file in memory. The system copies into it and reports memory that is not readable, instead of a fault.
class Copier {
 public:
  Copier() : fd_(memfd_create("memlake-image", MFD_CLOEXEC)) {
    if (fd_ < 0)
      refuse(CUDA_ERROR_OPERATING_SYSTEM, "the system gives no file to read an image: ", std::strerror(errno));
  }
  ~Copier() { close(fd_); }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Appends readable bytes to `to`. Returns how many of `size` were readable.
  std::uint64_t copy(std::uint64_t address, std::uint64_t size, std::vector<char>& to) const {
    std::uint64_t written = 0;
    while (written < size) {
      // Not pwrite(): AddressSanitizer checks its bytes, and only the kernel knows where the program's image ends.
      const auto count = syscall(SYS_pwrite64, fd_, reinterpret_cast<const void*>(address + written), size - written,
                                 static_cast<off_t>(written));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno != EFAULT)
        refuse(CUDA_ERROR_OPERATING_SYSTEM, "the system cannot copy an image: ", std::strerror(errno));
      if (count <= 0) break;
      written += static_cast<std::uint64_t>(count);
    }
    const std::size_t before = to.size();
    to.resize(before + written);
    for (std::uint64_t done = 0; done < written;) {
      const auto count = pread(fd_, to.data() + before + done, written - done, static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse(CUDA_ERROR_OPERATING_SYSTEM, "the system cannot copy an image: ", std::strerror(errno));
      done += static_cast<std::uint64_t>(count);
    }
    return written;
  }

 private:
  int fd_;
};

}  // namespace

std::vector<char> copy_of_program_memory(const void* pointer, std::uint64_t size) {
  if (size > kLargestImage)
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image claims to have ", size, " bytes; the emulator reads up to ",
           kLargestImage);
  std::vector<char> bytes;
  const std::uint64_t readable = Copier().copy(reinterpret_cast<std::uint64_t>(pointer), size, bytes);
  if (readable < size)
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image at ", pointer, " claims to have ", size, " bytes, but only ", readable,
           " are readable");
  return bytes;
}

std::string copy_of_program_text(const void* pointer) {
  const Copier copier;
  std::vector<char> bytes;
  std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
  std::uint64_t step = host_page() - address % host_page();  // up to the end of the page, then whole pages
  while (bytes.size() < kLargestImage) {
    const std::size_t before = bytes.size();
    const std::uint64_t readable = copier.copy(address, step, bytes);
    const auto end = std::find(bytes.begin() + static_cast<std::ptrdiff_t>(before), bytes.end(), '\0');
    if (end != bytes.end()) return {bytes.begin(), end};
    if (readable < step) break;
    address += step;
    step = std::min<std::uint64_t>(std::max(step, host_page()) * 2, std::uint64_t{1} << 20);
  }
  refuse(CUDA_ERROR_INVALID_IMAGE, "the text at ", pointer, " has no end; PTX ends with a zero byte");
}

std::vector<char> copy_of_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) refuse(CUDA_ERROR_FILE_NOT_FOUND, "the file ", path, " cannot be read");
  return bytes;
}

}  // namespace memlake::emulator
