#pragma once

// A digest of all live and pending blocks. The pool updates it only when a block starts or stops being one of them. A
// check computes it again from the blocks, and so detects any other change of such a block (I8).

#include <cstdint>

#include "blocks/block.hpp"

namespace memlake {

/// The part of one block; the digest is the exclusive or of all parts.
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
