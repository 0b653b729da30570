#pragma once

// Access rights of devices and the CPU at a mapped address. Access belongs to addresses, not to memory: each mapping of
// a chunk has its own rights.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace memlake::emulator {

/// The ordinal that stands for the host: of host memory, and of the CPU's access.
inline constexpr int kHost = -1;

class Rights {
 public:
  struct Entry {
    int device;
    unsigned flags;  ///< CUmemAccess_flags
  };

  /// The flags of a device; 0 if it has no access.
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

  /// The union of all flags.
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
