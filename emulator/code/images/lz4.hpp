#pragma once

#include <cstdint>
#include <vector>

#include "code/images/bytes.hpp"

namespace memlake::emulator {

/// Decompresses one LZ4 block to exactly `size` bytes. Throws 200 for a damaged block.
[[nodiscard]] std::vector<char> decompress_lz4(Bytes block, std::uint64_t size);

}  // namespace memlake::emulator
