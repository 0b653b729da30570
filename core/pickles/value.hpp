#pragma once

// One value of a pickle in eight bytes: a kind and a small number or the place of the content in a table.

#include <cstdint>

namespace memlake::pickles {

enum class Kind : std::uint8_t { none, boolean, integer, wide, real, text, list, tuple, dict };

class Value {
 public:
  /// None.
  constexpr Value() = default;
  constexpr Value(Kind kind, std::uint64_t place) : bits_(place << kKindBits | static_cast<std::uint64_t>(kind)) {}

  /// pre: fits(number).
  static constexpr Value integer(std::int64_t number) {
    return Value(Kind::integer, static_cast<std::uint64_t>(number));
  }
  static constexpr bool fits(std::int64_t number) { return number >= -kLargest - 1 && number <= kLargest; }

  [[nodiscard]] constexpr Kind kind() const { return static_cast<Kind>(bits_ & ((1U << kKindBits) - 1)); }
  /// The place in the table of its kind; for a boolean 0 or 1.
  [[nodiscard]] constexpr std::uint64_t place() const { return bits_ >> kKindBits; }
  /// pre: the kind is integer.
  [[nodiscard]] constexpr std::int64_t number() const { return static_cast<std::int64_t>(bits_) >> kKindBits; }
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }

  friend constexpr bool operator==(Value, Value) = default;

 private:
  static constexpr unsigned kKindBits = 4;
  static constexpr std::int64_t kLargest = (std::int64_t{1} << (63 - kKindBits)) - 1;

  std::uint64_t bits_ = 0;
};

/// A number of up to 128 bits that does not fit into a Value.
struct Wide {
  std::uint64_t low = 0;
  std::int64_t high = 0;
};

}  // namespace memlake::pickles
