#pragma once

// Attachments: what a program hung on the allocator for all devices: the text that entries of the history carry.

#include <mutex>
#include <string>

#include "torch_types.hpp"

namespace memlake_torch {

class Attachments {
 public:
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
  std::string metadata_;
};

}  // namespace memlake_torch
