#pragma once

// PyTorch's types under one name for all versions that the shim supports. Everything that depends on the version and is
// not the signature of a virtual function is here.

#include <torch/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 6
#error "memlake's shim needs PyTorch 2.6 or newer"
#endif

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/flat_hash_map.h>
#if TORCH_VERSION_MINOR >= 8
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <memory>
#include <string>
#include <utility>

namespace memlake_torch {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::CUDAStream;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::AllocatorTraceTracker;
using c10::cuda::CUDACachingAllocator::BlockInfo;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CreateContextFn;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::RecordContext;
using c10::cuda::CUDACachingAllocator::SegmentInfo;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using c10::cuda::CUDACachingAllocator::TraceEntry;
#if TORCH_VERSION_MINOR >= 7
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
#else
using c10::CachingDeviceAllocator::Stat;
using c10::CachingDeviceAllocator::StatArray;
#endif

using PoolId = std::pair<unsigned long long, unsigned long long>;
using Context = std::shared_ptr<c10::GatheredContext>;

inline constexpr PoolId kDefaultPool{0, 0};
inline constexpr int kMostDevices = 64;  // as in memlake.h

inline TraceEntry entry_of(TraceEntry::Action action, DeviceIndex device, size_t address, size_t size,
                           cudaStream_t stream, [[maybe_unused]] PoolId pool, Context context,
                           [[maybe_unused]] const std::string& compile_context,
                           [[maybe_unused]] const std::string& metadata) {
  return TraceEntry(action, device, address, size, stream,
#if TORCH_VERSION_MINOR >= 8
                    pool,
#endif
                    c10::getApproximateTime(), std::move(context)
#if TORCH_VERSION_MINOR >= 8
                                                   ,
                    compile_context
#endif
#if TORCH_VERSION_MINOR >= 10
                    ,
                    metadata
#endif
  );
}

}  // namespace memlake_torch
