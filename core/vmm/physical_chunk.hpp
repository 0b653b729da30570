#pragma once

// PhysicalChunk: owns physical memory created by one create call (or one import). It is never divided afterwards, so
// only the whole chunk can be moved or released.

#include <memory>

#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class PhysicalChunk {
 public:
  /// cuMemCreate. An exportable chunk can be passed to another process as a file descriptor.
  static PhysicalChunk create(std::shared_ptr<Device> device, Bytes size, bool is_exportable);
  /// cuMemCreate with other properties.
  static PhysicalChunk create(std::shared_ptr<Device> device, Bytes size, const CUmemAllocationProp& prop);
  /// cuMemCreate in host memory at `location`, for a device that maps it.
  static PhysicalChunk create_on_host(std::shared_ptr<Device> device, Bytes size, CUmemLocation location);
  /// cuMemImportFromShareableHandle. `size` is the exporter's and is not checked. The caller keeps `fd`.
  static PhysicalChunk import_fd(std::shared_ptr<Device> device, int fd, Bytes size);

  PhysicalChunk(PhysicalChunk&&) noexcept = default;
  PhysicalChunk& operator=(PhysicalChunk&&) = delete;
  ~PhysicalChunk();

  /// A new descriptor, which the caller closes. It keeps the memory alive.
  int export_fd() const;

  /// Throws Error(closed) after close().
  CUmemGenericAllocationHandle handle() const;
  Bytes size() const noexcept { return size_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  /// Whether the memory still exists. Host memory outlives an emulated device that is closed.
  bool can_undo() const noexcept { return is_on_host_ ? device_->is_of_this_process() : device_->can_undo(); }

  /// For Leftovers: the device memory of it.
  [[nodiscard]] Bytes held() const noexcept { return is_on_host_ ? Bytes{0} : size_; }
  void give_up() noexcept { ownership_.give_up(); }

  /// cuMemRelease; legal while mapped. The driver frees the memory when its last mapping is gone, too.
  void close();

 private:
  PhysicalChunk(std::shared_ptr<Device> device, CUmemGenericAllocationHandle handle, Bytes size,
                bool is_on_host = false);
  void release();

  std::shared_ptr<Device> device_;
  CUmemGenericAllocationHandle handle_;
  Bytes size_;
  bool is_on_host_;
  Ownership ownership_;
};

}  // namespace memlake
