#pragma once

// PlainAllocation: owns memory from cuMemAlloc, which provides addresses and physical memory together.

#include <memory>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class PlainAllocation {
 public:
  /// cuMemAlloc.
  PlainAllocation(std::shared_ptr<Device> device, Bytes size);
  PlainAllocation(PlainAllocation&&) noexcept = default;
  PlainAllocation& operator=(PlainAllocation&&) = delete;
  ~PlainAllocation();

  AddressRange range() const noexcept { return range_; }
  /// cuMemFree. If the call fails, it throws and the memory stays allocated.
  void close() {
    ownership_.end("the allocation", [this] { free(); });
  }
  /// For Leftovers.
  [[nodiscard]] Bytes held() const noexcept { return range_.size; }
  void give_up() noexcept { ownership_.give_up(); }

 private:
  void free();

  std::shared_ptr<Device> device_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
