#pragma once

// Reads a fatbin: a container with code for several architectures, as PTX or as cubins, possibly compressed.

#include <cstdint>
#include <vector>

#include "code/images/bytes.hpp"

namespace memlake::emulator {

inline constexpr std::uint32_t kFatbinMagic = 0xBA55ED50;
inline constexpr std::uint64_t kFatbinHeaderBytes = 16;
/// The struct around a fatbin that compilers put into programs: magic, version, pointer to the fatbin.
inline constexpr std::uint32_t kFatbinWrapperMagic = 0x466243B1;

[[nodiscard]] bool is_fatbin(Bytes bytes);

/// The size of the whole container. `header` has kFatbinHeaderBytes. Throws 200.
[[nodiscard]] std::uint64_t end_of_fatbin(Bytes header);

/// Picks the code for an architecture, for instance 80: the newest cubin of the same generation that is not newer than
/// the device, else the newest PTX that is not newer. Returns its decompressed bytes; PTX without a zero byte at the
/// end. Throws 200 for a damaged container, and 209 if there is no code for the architecture.
[[nodiscard]] std::vector<char> code_for(Bytes fatbin, int architecture);

}  // namespace memlake::emulator
