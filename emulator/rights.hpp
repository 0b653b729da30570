#pragma once

// Who may read and write at a mapped address. Access belongs to addresses, not to memory: each mapping of a chunk has
// its own rights.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace memlake::emulator {

/// The "device" of host memory and of the CPU's own access.
inline constexpr int kHost = -1;

class Rights {
 public:
  struct Entry {
    int device;
    unsigned flags;  ///< CUmemAccess_flags
  };

  /// 0 for a device that was granted nothing.
  [[nodiscard]] unsigned of(int device) const {
    const auto found = std::ranges::find(entries_, device, &Entry::device);
    return found == entries_.end() ? 0 : found->flags;
  }

  void set(int device, unsigned flags) {
    const auto found = std::ranges::find(entries_, device, &Entry::device);
    if (found == entries_.end()) {
      if (flags != 0) entries_.push_back({device, flags});
    } else if (flags != 0) {
      found->flags = flags;
    } else {
      entries_.erase(found);
    }
  }

  /// What anybody may do there.
  [[nodiscard]] unsigned of_anybody() const {
    unsigned flags = 0;
    for (const auto& entry : entries_) flags |= entry.flags;
    return flags;
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace memlake::emulator
