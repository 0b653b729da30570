#pragma once

// Rounding of sizes to steps.

#include <cstdint>

namespace memlake::emulator {

inline std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace memlake::emulator
