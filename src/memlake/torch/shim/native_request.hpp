#pragma once

// NativeRequest: a request of PyTorch's own allocator that the calling thread makes. When that allocator finds no
// cached memory, and before it asks the driver, it calls PyTorch's callbacks. There memlake gives its cached memory
// back if the device has no room for the request: a failure would be counted and told although memory is there.

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
  /// False: no memory of PyTorch's own allocator became free.
  bool Execute() override {
    if (NativeRequest* const request = NativeRequest::current()) request->make_room();
    return false;
  }
};

}  // namespace memlake_torch
