#pragma once

// The structures of cuCheckpointProcess..., as cuda.h 13.0 has them.

#include <cstdint>

#include "driver/cuda_abi.hpp"

namespace memlake::cuda {

struct CUcheckpointLockArgs {
  unsigned timeoutMs;
  unsigned reserved0;
  std::uint64_t reserved1[7];
};

/// CUcheckpointCheckpointArgs and CUcheckpointUnlockArgs.
struct CUcheckpointReservedArgs {
  std::uint64_t reserved[8];
};

/// The device that was checkpointed, and the one to restore it on.
struct CUcheckpointGpuPair {
  CUuuid oldUuid;
  CUuuid newUuid;
};

struct CUcheckpointRestoreArgs {
  CUcheckpointGpuPair* gpuPairs;
  unsigned gpuPairsCount;
  char reserved[52 - sizeof(CUcheckpointGpuPair*)];
  std::uint64_t reserved1;
};

static_assert(sizeof(CUcheckpointLockArgs) == 64 && sizeof(CUcheckpointReservedArgs) == 64);
static_assert(sizeof(CUcheckpointRestoreArgs) == 64 && sizeof(CUcheckpointGpuPair) == 32);

}  // namespace memlake::cuda
