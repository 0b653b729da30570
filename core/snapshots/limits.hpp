#pragma once

// The ranges of the numbers in a snapshot, and the handles of its streams.

#include <cstdint>
#include <optional>

#include "pickles/document.hpp"

namespace memlake::snapshots {

/// Sizes have 63 bits.
inline constexpr std::uint64_t kLargestSize = (std::uint64_t{1} << 63) - 1;
/// The handle that stands for a stream that the snapshot does not name. No stream has it.
inline constexpr std::uint64_t kUnknownStream = ~std::uint64_t{0};

/// A whole number up to `largest`; `missing` if the field is not there; nothing if it is something else.
inline std::optional<std::uint64_t> number_in(const pickles::Document& document, std::optional<pickles::Value> field,
                                              std::uint64_t largest, std::optional<std::uint64_t> missing = {}) {
  if (!field) return missing;
  const std::optional<std::uint64_t> number = document.whole(*field);
  return number && *number <= largest ? number : std::nullopt;
}

/// The handle of a stream, which PyTorch writes as a signed number; 0 for both handles of the default stream.
inline std::optional<std::uint64_t> stream_in(const pickles::Document& document, std::optional<pickles::Value> field) {
  if (!field) return 0;
  std::optional<std::uint64_t> handle = document.whole(*field);
  if (!handle) {
    const std::optional<std::int64_t> negative = document.signed_whole(*field);
    if (!negative) return std::nullopt;
    handle = static_cast<std::uint64_t>(*negative);
  }
  constexpr std::uint64_t kLegacyDefaultStream = 1;  // CU_STREAM_LEGACY of cuda.h
  return *handle == kLegacyDefaultStream ? 0 : *handle;
}

}  // namespace memlake::snapshots
