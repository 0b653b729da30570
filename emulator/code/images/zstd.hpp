#pragma once

#include <cstdint>
#include <vector>

#include "code/images/bytes.hpp"

namespace memlake::emulator {

/// Decompresses one zstd frame without a dictionary (RFC 8878) to exactly `size` bytes. It does not compare the
/// checksum. Throws 200 for a damaged frame.
[[nodiscard]] std::vector<char> decompress_zstd(Bytes frame, std::uint64_t size);

}  // namespace memlake::emulator
