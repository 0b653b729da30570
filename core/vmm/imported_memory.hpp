#pragma once

// ImportedMemory: owns one contiguous range over chunks that another process exported. Both processes see the same
// bytes. The memory stays alive when the exporting process ends.

#include <memory>
#include <span>
#include <vector>

#include "base/ownership.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {

class ImportedMemory {
 public:
  /// One chunk, as the exporter described it. The caller keeps the descriptor.
  struct Part {
    int fd;
    Bytes size;
    std::shared_ptr<Device> device;  ///< the device of the memory, as this process sees it
  };

  /// Imports the chunks, reserves addresses, maps the chunks in order and gives `users` the rights. All or nothing.
  /// Error(config) if a descriptor is not device memory or a chunk is smaller than its part says.
  ImportedMemory(std::span<const Part> parts, std::span<const std::shared_ptr<Device>> users, CUmemAccess_flags rights);
  ImportedMemory(ImportedMemory&&) = delete;
  ImportedMemory& operator=(ImportedMemory&&) = delete;
  ~ImportedMemory();

  [[nodiscard]] AddressRange range() const noexcept { return range_; }
  [[nodiscard]] bool is_open() const noexcept { return ownership_.is_held(); }

  /// Waits for the devices, whose work may still use the memory, and unmaps it. If that fails, throws and stays open.
  void close();

 private:
  void give_up();

  std::vector<std::shared_ptr<Device>> devices_;  // devices whose work may use it
  StitchedRange stitched_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
