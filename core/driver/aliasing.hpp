#pragma once

// Aliasing: how a chunk may be mapped a second time while its first mapping exists. Each level allows all below it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace memlake {

enum class Aliasing : std::uint8_t {
  none,    ///< a chunk has one mapping at a time
  whole,   ///< a whole chunk may have a second mapping
  prefix,  ///< a second mapping may cover only the first part of a chunk
};

inline constexpr std::array<const char*, 3> kAliasingWords{"none", "whole", "prefix"};

[[nodiscard]] constexpr const char* word_of(Aliasing level) { return kAliasingWords[static_cast<std::size_t>(level)]; }

/// Empty for any other word.
[[nodiscard]] constexpr std::optional<Aliasing> aliasing_of(std::string_view word) {
  for (std::size_t i = 0; i < kAliasingWords.size(); ++i)
    if (word == kAliasingWords[i]) return static_cast<Aliasing>(i);
  return std::nullopt;
}

}  // namespace memlake
