#pragma once

// The bytes of a physical chunk. A Storage owns its bytes: its destructor returns them to the system.

#include <cstdint>
#include <memory>

#include "system/address_space.hpp"

namespace memlake::emulator {

/// One sparse file per device. Ordinary chunks are slices of it, so thousands of chunks need one descriptor, and the
/// kernel merges mappings of adjacent slices at adjacent addresses.
class HeapFile {
 public:
  HeapFile();
  /// Uses the first `length` bytes of an existing file. Owns the descriptor.
  HeapFile(int fd, std::uint64_t length) : fd_(fd), offsets_(0, length) {}
  ~HeapFile();
  HeapFile(const HeapFile&) = delete;
  HeapFile& operator=(const HeapFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  std::uint64_t take(std::uint64_t size, std::uint64_t alignment);
  void give_back(std::uint64_t offset, std::uint64_t size);  ///< the pages return to the system at once

 private:
  int fd_ = -1;
  AddressSpace offsets_;
};

/// Nothing (backing=none), a slice of a heap file, or its own file (exportable memory). Move-only.
class Storage {
 public:
  Storage() = default;
  Storage(std::shared_ptr<HeapFile> heap, std::uint64_t size, std::uint64_t alignment);
  explicit Storage(int own_file) : fd_(own_file) {}
  ~Storage();
  Storage(Storage&& other) noexcept;
  Storage& operator=(Storage&& other) noexcept;

  [[nodiscard]] bool has_bytes() const { return fd_ >= 0; }
  [[nodiscard]] bool is_own_file() const { return has_bytes() && heap_ == nullptr; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

  /// Writes a pattern over the first `size` bytes, so that a read before the first write is noticed.
  void poison(std::uint64_t size) const;

 private:
  std::shared_ptr<HeapFile> heap_;
  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace memlake::emulator
