#pragma once

// Bytes: a size. Its own type, so that a size is never taken for an address, a count or a handle.

#include <compare>
#include <cstdint>
#include <optional>

namespace memlake {

struct Bytes {
  std::uint64_t count = 0;

  /// False for every size if `unit` is 0, because an unknown granularity has no multiples.
  constexpr bool is_multiple_of(Bytes unit) const { return unit.count != 0 && count % unit.count == 0; }

  /// The next multiple of `unit`, upwards or downwards. pre: `unit` is not 0.
  constexpr Bytes rounded_up(Bytes unit) const { return {(count + unit.count - 1) / unit.count * unit.count}; }
  constexpr Bytes rounded_down(Bytes unit) const { return {count / unit.count * unit.count}; }

  /// How much more it is than `other`; 0 if it is not more.
  constexpr Bytes excess_over(Bytes other) const { return {count > other.count ? count - other.count : 0}; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t times) { return {a.count * times}; }
};

inline constexpr Bytes KiB{std::uint64_t{1} << 10};
inline constexpr Bytes MiB{std::uint64_t{1} << 20};
inline constexpr Bytes GiB{std::uint64_t{1} << 30};

/// std::nullopt if the sum does not fit into 64 bits: sizes come from users.
constexpr std::optional<Bytes> checked_add(Bytes a, Bytes b) {
  const Bytes sum = a + b;
  return sum < a ? std::nullopt : std::optional{sum};
}

}  // namespace memlake
