#pragma once

// Sizes as PyTorch writes them.

#include <cstdint>
#include <cstdio>
#include <string>

namespace memlake_torch {

/// As PyTorch writes sizes: 1 GiB is "1024.00 MiB".
inline std::string text_of_bytes(uint64_t size) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  if (size <= 1024) return std::to_string(size) + " bytes";
  double value = static_cast<double>(size) / 1024;
  size_t unit = 0;
  for (; value > 1024 && unit + 1 < 3; ++unit) value /= 1024;
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace memlake_torch
