#pragma once

// NativeRequest: a request of PyTorch's own allocator that the calling thread makes. When that allocator finds no
// cached memory, and before it asks the driver, it calls PyTorch's callbacks. There memlake gives its cached memory
// back if the device has no room for the request: a failure would be counted and told although memory is there.

#include <atomic>
#include <memory>

#include "device_memory.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

class NativeRequest {
 public:
  NativeRequest(DeviceMemory& memory, size_t size) : memory_(memory), size_(size), outer_(current()) {
    current() = this;
  }
  NativeRequest(const NativeRequest&) = delete;
  NativeRequest& operator=(const NativeRequest&) = delete;
  ~NativeRequest() { current() = outer_; }

  /// The calling thread's request; null if there is none.
  static NativeRequest*& current() {
    thread_local NativeRequest* request = nullptr;
    return request;
  }

  void make_room() { memory_.make_room(size_ + kSegment); }

 private:
  static constexpr size_t kSegment = 20 << 20;  // PyTorch asks the driver for so much at least

  DeviceMemory& memory_;
  const size_t size_;
  NativeRequest* const outer_;
};

class MemlakeRoom final : public c10::FreeMemoryCallback {
 public:
  /// While memlake is not installed: the memory of all devices, kMostDevices of them. Then PyTorch's own allocator is
  /// asked without a NativeRequest, and gets what tensors of memlake's memory have left behind. Else null.
  static inline std::atomic<const std::unique_ptr<DeviceMemory>*> left_behind{nullptr};

  /// False: no memory of PyTorch's own allocator became free.
  bool Execute() override {
    if (NativeRequest* const request = NativeRequest::current()) {
      request->make_room();
    } else if (const std::unique_ptr<DeviceMemory>* const devices = left_behind.load()) {
      for (int device = 0; device < kMostDevices; ++device) devices[device]->release_unused();
    }
    return false;
  }
};

}  // namespace memlake_torch
