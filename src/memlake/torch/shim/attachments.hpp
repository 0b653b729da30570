#pragma once

// Attachments: texts that snapshots and histories carry: the program's own, and memlake's configuration.

#include <algorithm>
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
  /// `conf`: as for memlake_pool_create(). In PyTorch's settings a comma separates keys, so there it becomes a
  /// semicolon.
  void set_configuration(std::string conf) {
    std::replace(conf.begin(), conf.end(), ',', ';');
    const std::lock_guard lock(mutex_);
    configuration_ = std::move(conf);
  }
  std::string configuration() const {
    const std::lock_guard lock(mutex_);
    return configuration_;
  }
  std::string metadata() const {
    const std::lock_guard lock(mutex_);
    return metadata_;
  }

 private:
  mutable std::mutex mutex_;
  std::string metadata_;
  std::string configuration_;
};

}  // namespace memlake_torch
