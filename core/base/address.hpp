#pragma once

// Address and AddressRange: an address, and a half-open range of addresses, in a device's address space.

#include <compare>
#include <cstdint>

#include "base/bytes.hpp"

namespace memlake {

struct Address {
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(Address, Address) = default;
  friend constexpr Address operator+(Address a, Bytes offset) { return {a.value + offset.count}; }
  friend constexpr Bytes operator-(Address a, Address b) { return {a.value - b.value}; }
};

struct AddressRange {
  Address begin;
  Bytes size;

  constexpr Address end() const { return begin + size; }
  constexpr bool contains(Address a) const { return a >= begin && a < end(); }
  constexpr bool contains(AddressRange r) const { return r.begin >= begin && r.end() <= end(); }
  constexpr bool overlaps(AddressRange r) const { return r.begin < end() && begin < r.end(); }
  constexpr bool touches(AddressRange r) const { return r.begin == end() || begin == r.end(); }

  friend constexpr bool operator==(AddressRange, AddressRange) = default;
};

}  // namespace memlake
