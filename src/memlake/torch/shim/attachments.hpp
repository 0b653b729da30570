#pragma once

// Attachments: what a program hung on the allocator and every device uses: observers of out-of-memory errors, and the
// text that entries of the history carry.

#include <mutex>
#include <string>
#include <vector>

#include "torch_types.hpp"

namespace memlake_torch {

class Attachments {
 public:
  void add_observer(OutOfMemoryObserver observer) {
    const std::lock_guard lock(mutex_);
    observers_.push_back(std::move(observer));
  }
  /// Calls the observers without a lock, because they run Python code.
  void call_observers(DeviceIndex device, size_t size, size_t total, size_t free) const {
    std::vector<OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock(mutex_);
      observers = observers_;
    }
    for (const auto& observer : observers) observer(device, size, total, free);
  }

  void set_metadata(const std::string& metadata) {
    const std::lock_guard lock(mutex_);
    metadata_ = metadata;
  }
  std::string metadata() const {
    const std::lock_guard lock(mutex_);
    return metadata_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<OutOfMemoryObserver> observers_;
  std::string metadata_;
};

}  // namespace memlake_torch
