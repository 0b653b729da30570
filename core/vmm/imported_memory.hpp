#pragma once

// ImportedMemory: owns one contiguous range over chunks that another process exported. The bytes are that process's
// own; they live on when it is gone.

#include <memory>
#include <span>
#include <vector>

#include "base/ownership.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {

class ImportedMemory {
 public:
  /// One chunk, as the exporter described it. The descriptor stays the caller's.
  struct Part {
    int fd;
    Bytes size;
    std::shared_ptr<Device> device;  ///< whose memory it is, in this process
  };

  /// Imports, reserves, maps in order, and gives `users` the rights. All or nothing. Error(config) for a descriptor
  /// that is no memory, or a chunk that is smaller than it was said to be.
  ImportedMemory(std::span<const Part> parts, std::span<const std::shared_ptr<Device>> users, CUmemAccess_flags rights);
  ImportedMemory(ImportedMemory&&) = delete;
  ImportedMemory& operator=(ImportedMemory&&) = delete;
  ~ImportedMemory();

  [[nodiscard]] AddressRange range() const noexcept { return range_; }
  [[nodiscard]] bool is_open() const noexcept { return ownership_.is_held(); }

  /// Waits for the devices, which may still work on it, and gives it up. Throws and stays open if that fails.
  void close();

 private:
  void give_up();

  std::vector<std::shared_ptr<Device>> devices_;  // that may work on it
  StitchedRange stitched_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
