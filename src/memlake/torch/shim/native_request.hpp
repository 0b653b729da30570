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
  /// The memory of all devices, kMostDevices of them. Null until memlake is installed first.
  static inline std::atomic<const std::unique_ptr<DeviceMemory>*> devices{nullptr};
  /// Whether memlake is not installed any more. Then PyTorch's own allocator is asked without a NativeRequest, and gets
  /// what tensors of memlake's memory have left behind.
  static inline std::atomic<bool> is_left_behind{false};

  /// False: no memory of PyTorch's own allocator became free.
  bool Execute() override {
    NativeRequest* const request = NativeRequest::current();
    const bool is_left = is_left_behind.load();
    const std::unique_ptr<DeviceMemory>* const all = devices.load();
    // Else it is a request of memlake's that calls all callbacks.
    if (all == nullptr || (request == nullptr && !is_left && !NativeFailure::is_under_way())) return false;
    // PyTorch's own allocator takes memory of the current device. Its lock for this device is held, and a thread that
    // has the lock of another device may wait for it: no other device is looked at.
    const DeviceIndex device = c10::cuda::current_device();
    DeviceMemory& memory = *all[device];
    memory.native_share.apply(NativeFailure::most_of(device));
    if (request != nullptr) {
      request->make_room();
    } else if (is_left) {
      memory.release_unused();
    }
    return false;
  }
};

}  // namespace memlake_torch
