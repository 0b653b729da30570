#pragma once

// A number that stands for all blocks that are live or pending. It changes only where a block becomes or stops being
// one of them, so a check that adds them up anew finds out whether anything else has touched one (I8).

#include <cstdint>

#include "blocks/block.hpp"

namespace memlake {

/// What one block adds to it, by exclusive or.
inline std::uint64_t live_digest(const Block& block) {
  // The finaliser of MurmurHash3: every bit of the input changes about half of the output.
  std::uint64_t x = block.address.value ^ (block.size.count * 0x9E3779B97F4A7C15u) ^ block.id;
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDu;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53u;
  x ^= x >> 33;
  return x;
}

}  // namespace memlake
