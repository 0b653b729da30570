#include "system/storage.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "basics/refusal.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {
// The file is sparse: its length takes no memory. It is much longer than any device's memory, so that there is a free
// range for a slice of any size despite fragmentation.
constexpr std::uint64_t kHeapLength = std::uint64_t{1} << 50;
constexpr unsigned char kPoison = 0xA5;
}  // namespace

HeapFile::HeapFile() : offsets_(0, kHeapLength) {
  check_file_length(kHeapLength);
  fd_ = guarded_descriptor(memfd_create("memlake-heap", MFD_CLOEXEC));
  if (ftruncate(fd_, static_cast<off_t>(kHeapLength)) != 0) {
    const int error = errno;
    close(fd_);
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot make a file for device memory: ", std::strerror(error));
  }
}

HeapFile::~HeapFile() { close(fd_); }

std::uint64_t HeapFile::take(std::uint64_t size, std::uint64_t alignment) {
  const auto offset = offsets_.take(size, alignment);
  if (!offset) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the file of this device's memory has no room for ", size, " bytes");
  return *offset;
}

void HeapFile::give_back(std::uint64_t offset, std::uint64_t size) {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
  offsets_.give_back(offset, size);
}

Storage::Storage(std::shared_ptr<HeapFile> heap, std::uint64_t size, std::uint64_t alignment)
    : heap_(std::move(heap)), fd_(heap_->fd()), offset_(heap_->take(size, alignment)), size_(size) {}

Storage::~Storage() {
  if (heap_ != nullptr) {
    heap_->give_back(offset_, size_);
  } else if (fd_ >= 0) {
    close(fd_);
  }
}

Storage::Storage(Storage&& other) noexcept
    : heap_(std::move(other.heap_)), fd_(std::exchange(other.fd_, -1)), offset_(other.offset_), size_(other.size_) {}

Storage& Storage::operator=(Storage&& other) noexcept {
  std::swap(heap_, other.heap_);
  std::swap(fd_, other.fd_);
  std::swap(offset_, other.offset_);
  std::swap(size_, other.size_);
  return *this;
}

void Storage::poison(std::uint64_t size) const {
  if (!has_bytes()) return;
  void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset_));
  if (bytes == MAP_FAILED) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot map device memory to poison it");
  std::memset(bytes, kPoison, size);
  munmap(bytes, size);
}

}  // namespace memlake::emulator
