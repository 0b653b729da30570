// Compares our description of CUDA with a real cuda.h, number by number, at compile time. Built where a header is
// found; if this file compiles, they agree.

#include <cstddef>
#include <iostream>
#include <string_view>
#include <type_traits>

#include "driver/cuda_abi.hpp"

// cuda.h makes macros of these two names, so ours are read before it is included.
namespace ours {
constexpr auto stream_legacy = memlake::cuda::CU_STREAM_LEGACY;
constexpr auto stream_per_thread = memlake::cuda::CU_STREAM_PER_THREAD;
}  // namespace ours

#include <cuda.h>

namespace {

namespace abi = memlake::cuda;

static_assert(CUDA_VERSION >= 11020, "the oldest CUDA this project describes is 11.2");

// Results.
#define R(code, name, text, meaning) static_assert(static_cast<int>(::name) == (code));
#include "driver/results.inc"
#undef R

// Enumerators. A name that a header is too old for does not compile: the guards say since when it exists.
#define SAME(name) static_assert(static_cast<long long>(abi::name) == static_cast<long long>(::name))
SAME(CU_MEM_ALLOCATION_TYPE_INVALID);
SAME(CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_MEM_LOCATION_TYPE_INVALID);
SAME(CU_MEM_LOCATION_TYPE_DEVICE);
#if CUDA_VERSION >= 12020
SAME(CU_MEM_LOCATION_TYPE_HOST);
SAME(CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
#endif
SAME(CU_MEM_HANDLE_TYPE_NONE);
SAME(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_MEM_HANDLE_TYPE_WIN32);
SAME(CU_MEM_HANDLE_TYPE_WIN32_KMT);
#if CUDA_VERSION >= 12030
SAME(CU_MEM_HANDLE_TYPE_FABRIC);
#endif
#if CUDA_VERSION >= 13000
SAME(CU_MEM_ALLOCATION_TYPE_MANAGED);
#endif
SAME(CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
#if CUDA_VERSION >= 11030
SAME(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
#endif
SAME(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CU_STREAM_CAPTURE_MODE_RELAXED);
#if CUDA_VERSION >= 12000
SAME(CU_GET_PROC_ADDRESS_SUCCESS);
SAME(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
#endif
SAME(CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CU_POINTER_ATTRIBUTE_MAPPED);
SAME(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
#if CUDA_VERSION >= 11030
SAME(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
#endif
#if CUDA_VERSION >= 11070
SAME(CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SAME(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SAME(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
#endif
SAME(CU_MEMORYTYPE_HOST);
SAME(CU_MEMORYTYPE_DEVICE);
SAME(CU_MEMORYTYPE_ARRAY);
SAME(CU_MEMORYTYPE_UNIFIED);
SAME(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(CU_STREAM_DEFAULT);
SAME(CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_DEFAULT);
SAME(CU_EVENT_BLOCKING_SYNC);
SAME(CU_EVENT_DISABLE_TIMING);
SAME(CU_EVENT_INTERPROCESS);
#undef SAME

// Layouts.
#define SAME_TYPE(type) static_assert(sizeof(abi::type) == sizeof(::type) && alignof(abi::type) == alignof(::type))
#define SAME_FIELD(type, field) static_assert(offsetof(abi::type, field) == offsetof(::type, field))
SAME_TYPE(CUdevice);
SAME_TYPE(CUdeviceptr);
SAME_TYPE(CUmemGenericAllocationHandle);
SAME_TYPE(CUcontext);
SAME_TYPE(CUstream);
SAME_TYPE(CUevent);
SAME_TYPE(CUmemoryPool);
SAME_TYPE(CUuuid);
SAME_TYPE(CUmemLocation);
SAME_FIELD(CUmemLocation, type);
SAME_FIELD(CUmemLocation, id);
SAME_TYPE(CUmemAccessDesc);
SAME_FIELD(CUmemAccessDesc, location);
SAME_FIELD(CUmemAccessDesc, flags);
SAME_TYPE(CUmemAllocationProp);
SAME_FIELD(CUmemAllocationProp, type);
SAME_FIELD(CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(CUmemAllocationProp, location);
SAME_FIELD(CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(CUmemAllocationProp, allocFlags.compressionType);
SAME_FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_FIELD(CUmemAllocationProp, allocFlags.usage);
SAME_FIELD(CUmemAllocationProp, allocFlags.reserved);
SAME_TYPE(CUmemPoolProps);
SAME_FIELD(CUmemPoolProps, allocType);
SAME_FIELD(CUmemPoolProps, handleTypes);
SAME_FIELD(CUmemPoolProps, location);
SAME_FIELD(CUmemPoolProps, win32SecurityAttributes);
#if CUDA_VERSION >= 12020
SAME_FIELD(CUmemPoolProps, maxSize);
#endif
#if CUDA_VERSION >= 12080
SAME_FIELD(CUmemPoolProps, usage);
SAME_FIELD(CUmemPoolProps, reserved);
#endif
SAME_TYPE(CUmemPoolPtrExportData);
#undef SAME_FIELD
#undef SAME_TYPE

// Functions. cuda.h defines cuMemAlloc as cuMemAlloc_v2 and so on, so it says which symbol a program compiled with it
// binds.
#define TEXT(name) #name
#define EXPANDED(name) TEXT(name)

/// Where we bind an older symbol than a new header does: it is enough, and older drivers have it, too.
constexpr bool is_older_on_purpose(std::string_view ours) {
  return ours == "cuEventElapsedTime" || ours == "cuStreamGetCaptureInfo_v2";
}

constexpr bool is_newest(std::string_view ours, std::string_view newest) { return ours == newest; }

/// The same number of parameters, each as large and as much a pointer as the other.
template <class... Ours, class... Theirs>
constexpr bool is_alike(abi::CUresult (*)(Ours...), ::CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return ((sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) && ...);
  }
}

}  // namespace

// Inside this namespace the parameter types of functions.inc are ours.
namespace memlake::cuda {
#define F(name, symbol, need, parameters, arguments)                                                                 \
  static_assert(is_newest(symbol, EXPANDED(name)) || is_older_on_purpose(symbol), "another symbol: " symbol);        \
  static_assert(!is_newest(symbol, EXPANDED(name)) ||                                                                \
                    is_alike(static_cast<CUresult(*) parameters>(nullptr), static_cast<decltype(&::name)>(nullptr)), \
                "other parameters: " symbol);
#include "driver/functions.inc"
#undef F
}  // namespace memlake::cuda

int main() {
  // Casts of integers to pointers, which no static_assert may look at.
  const bool same = reinterpret_cast<CUstream>(ours::stream_legacy) == CU_STREAM_LEGACY &&
                    reinterpret_cast<CUstream>(ours::stream_per_thread) == CU_STREAM_PER_THREAD;
  std::cout << "cuda.h " << CUDA_VERSION << (same ? " agrees" : " disagrees about the default streams") << std::endl;
  return same ? 0 : 1;
}
