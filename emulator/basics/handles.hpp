#pragma once

// Numbers that the handles of contexts, streams, events, pools and chunks have in common.

#include <cstdint>

#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

/// The distance of two handles of one kind. A handle looks like a pointer, so it is aligned like one.
inline constexpr std::uint64_t kHandleStep = 16;

inline constexpr int kPosix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
inline constexpr int kKnownHandleTypes = 1 | 2 | 4 | 8;
inline constexpr unsigned short kUsageHwDecompress = 2;

}  // namespace memlake::emulator
