#pragma once

// The pieces of a block: the places in which its memory lies.

#include <cstddef>
#include <utility>
#include <vector>

#include "policies/space.hpp"

namespace memlake {

/// Where the first `size` bytes of a block of the space lie: the number of a device in the pool, or the number of
/// devices for the host, and the bytes there. Memory that lies side by side in one place is one piece. pre: the lock is
/// held, and the block has memory.
[[nodiscard]] std::vector<std::pair<std::size_t, Bytes>> pieces_of(const Space& space, const Block& block, Bytes size);

}  // namespace memlake
