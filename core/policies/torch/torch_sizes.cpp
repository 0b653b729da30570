#include "policies/torch/torch_sizes.hpp"

#include <algorithm>
#include <bit>

namespace memlake::torch {

namespace {

constexpr unsigned kFirstDivisionExponent = 20;  // the table begins at 1 MiB

std::uint32_t divisions_for(Bytes size, const TorchOptions& options) {
  const auto exponent = static_cast<unsigned>(std::bit_width(size.count)) - 1;
  const unsigned index = exponent < kFirstDivisionExponent ? 0 : exponent - kFirstDivisionExponent;
  return options.roundup_power2_divisions[std::min<std::size_t>(index, options.roundup_power2_divisions.size() - 1)];
}

}  // namespace

Bytes round_request(Bytes requested, const TorchOptions& options) {
  if (requested < kMinBlock) return kMinBlock;
  const std::uint32_t divisions = divisions_for(requested, options);
  if (divisions <= 1 || requested <= kMinBlock * divisions) return requested.rounded_up(kMinBlock);
  if (std::has_single_bit(requested.count)) return requested;
  const Bytes power{std::bit_floor(requested.count)};
  const Bytes step{power.count >> (std::bit_width(divisions) - 1)};
  return step.count == 0 ? power * 2 : requested.rounded_up(step);
}

Bytes segment_size(Bytes rounded, const TorchOptions& options) {
  if (is_small(rounded)) return kSmallSegment;
  // Pages of graph pools are smaller than some requests.
  if (rounded < kMinLarge) return std::max(options.large_segment_size, rounded.rounded_up(kLargeRounding));
  return rounded.rounded_up(kLargeRounding);
}

}  // namespace memlake::torch
