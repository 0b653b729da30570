#pragma once

// A first-fit allocator of ranges: it always takes the lowest free range that fits. The emulator uses it for device
// addresses (reservations and plain allocations share one window) and for offsets in a device's heap file.

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace memlake::emulator {

class AddressSpace {
 public:
  AddressSpace() = default;
  AddressSpace(std::uint64_t base, std::uint64_t size);

  /// Takes the lowest free range of this size at this alignment (a power of two). Empty if there is none.
  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment);

  /// Takes exactly this range. Returns false if a part of it is taken or outside the space.
  bool take_at(std::uint64_t address, std::uint64_t size);

  /// pre: the range was taken, whole or as part of a larger one, and not given back since.
  void give_back(std::uint64_t address, std::uint64_t size);

  [[nodiscard]] bool contains(std::uint64_t address) const { return address >= base_ && address - base_ < size_; }

 private:
  using Free = std::map<std::uint64_t, std::uint64_t>;  // start -> size; neighbours are merged

  void cut(Free::iterator extent, std::uint64_t address, std::uint64_t size);
  void note_free(std::uint64_t address, std::uint64_t size);

  std::uint64_t base_ = 0;
  std::uint64_t size_ = 0;
  Free free_;
  /// lowest_[k]: no free extent of 2^k bytes or more starts below this address. Keeps the first-fit search short.
  std::array<std::uint64_t, 64> lowest_{};
};

}  // namespace memlake::emulator
