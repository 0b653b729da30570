#pragma once

// The part of CUDA's description that only the emulator needs: legacy sharing between processes.

#include "driver/cuda_abi.hpp"

namespace memlake::cuda {

struct CUipcMemHandle {
  char reserved[64];
};

struct CUipcEventHandle {
  char reserved[64];
};

inline constexpr unsigned CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;
inline constexpr unsigned CU_CTX_SYNC_MEMOPS = 0x80;

}  // namespace memlake::cuda
