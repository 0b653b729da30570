#pragma once

// The search in a map of ranges by address, which mapped memory and plain memory share.

#include <cstdint>
#include <iterator>

namespace memlake::emulator {

/// The element of a map from first address to something with a `size` that contains `address`; end() if none does.
template <class Ranges>
auto containing(Ranges& ranges, std::uint64_t address) {
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return ranges.end();
  auto candidate = std::prev(next);
  return address - candidate->first < candidate->second.size ? candidate : ranges.end();
}

}  // namespace memlake::emulator
