#pragma once

// The part of the CUDA driver's C ABI that only green contexts need, with CUDA's own names.
// tests/native/check_cuda_h.cpp compares the layouts with a real header.

#include <cstddef>

namespace memlake::cuda {

using CUgreenCtx = struct CUgreenCtx_st*;
using CUdevResourceDesc = struct CUdevResourceDesc_st*;

using CUdevResourceType = int;
inline constexpr CUdevResourceType CU_DEV_RESOURCE_TYPE_INVALID = 0;
inline constexpr CUdevResourceType CU_DEV_RESOURCE_TYPE_SM = 1;

inline constexpr unsigned CU_GREEN_CTX_DEFAULT_STREAM = 1;
inline constexpr unsigned CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 1;

struct CUdevSmResource {
  unsigned smCount;
  unsigned minSmPartitionSize;
  unsigned smCoscheduledAlignment;
  unsigned flags;  ///< since CUDA 13.1
};

struct CUdevResource {
  CUdevResourceType type;
  unsigned char internal[92];  ///< the driver's own
  union {
    CUdevSmResource sm;
    unsigned char oversize[48];  ///< since CUDA 13.1 the last eight bytes are a pointer
  };
};
static_assert(sizeof(CUdevResource) == 144 && offsetof(CUdevResource, sm) == 96);

}  // namespace memlake::cuda
