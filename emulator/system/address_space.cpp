#include "system/address_space.hpp"

#include <algorithm>
#include <bit>

namespace memlake::emulator {

namespace {
unsigned size_class(std::uint64_t size) { return static_cast<unsigned>(std::bit_width(size) - 1); }
}  // namespace

AddressSpace::AddressSpace(std::uint64_t base, std::uint64_t size) : base_(base), size_(size) {
  lowest_.fill(base);
  if (size > 0) free_.emplace(base, size);
}

std::optional<std::uint64_t> AddressSpace::take(std::uint64_t size, std::uint64_t alignment) {
  if (size == 0 || size > size_) return std::nullopt;
  const unsigned wanted = size_class(size);
  bool is_first_of_class = true;
  for (auto extent = free_.lower_bound(lowest_[wanted]); extent != free_.end(); ++extent) {
    if (extent->second < size && size_class(extent->second) < wanted) continue;
    if (is_first_of_class) lowest_[wanted] = extent->first;
    is_first_of_class = false;
    const std::uint64_t start = (extent->first + alignment - 1) & ~(alignment - 1);
    const std::uint64_t skipped = start - extent->first;
    if (start < extent->first || skipped > extent->second || extent->second - skipped < size) continue;
    cut(extent, start, size);
    return start;
  }
  if (is_first_of_class) lowest_[wanted] = base_ + size_;
  return std::nullopt;
}

bool AddressSpace::take_at(std::uint64_t address, std::uint64_t size) {
  auto extent = free_.upper_bound(address);
  if (size == 0 || extent == free_.begin()) return false;
  --extent;
  const std::uint64_t skipped = address - extent->first;
  if (skipped >= extent->second || extent->second - skipped < size) return false;
  cut(extent, address, size);
  return true;
}

void AddressSpace::cut(Free::iterator extent, std::uint64_t address, std::uint64_t size) {
  const std::uint64_t before = address - extent->first;
  const std::uint64_t after = extent->second - before - size;
  if (before > 0) {
    extent->second = before;
  } else {
    free_.erase(extent);
  }
  if (after > 0) free_.emplace(address + size, after);
}

void AddressSpace::give_back(std::uint64_t address, std::uint64_t size) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += size;
      note_free(previous->first, previous->second);
      return;
    }
  }
  free_.emplace_hint(next, address, size);
  note_free(address, size);
}

void AddressSpace::note_free(std::uint64_t address, std::uint64_t size) {
  for (unsigned k = 0; k <= size_class(size); ++k) lowest_[k] = std::min(lowest_[k], address);
}

}  // namespace memlake::emulator
