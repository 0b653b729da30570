// Random contents of the structures that functions take. Pointers in them point to the memory of the program.

#include <cstring>

#include "random_arguments.hpp"

namespace memlake::test {

void RandomArguments::fill(CUmemLocation& value) {
  value.type = happens_once_in(3) ? up_to<CUmemLocationType>(5) : CU_MEM_LOCATION_TYPE_DEVICE;
  value.id = device();
}

void RandomArguments::fill(CUmemAccessDesc& value) {
  fill(value.location);
  value.flags = happens_once_in(3) ? up_to<CUmemAccess_flags>(4) : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

void RandomArguments::fill(CUmemAllocationProp& value) {
  value.type = happens_once_in(8) ? up_to<CUmemAllocationType>(3) : CU_MEM_ALLOCATION_TYPE_PINNED;
  value.requestedHandleTypes = happens_once_in(3) ? up_to<CUmemAllocationHandleType>(8) : CU_MEM_HANDLE_TYPE_NONE;
  fill(value.location);
  if (happens_once_in(10)) value.allocFlags.usage = static_cast<unsigned short>(random_());
  if (happens_once_in(10)) value.allocFlags.compressionType = static_cast<unsigned char>(choose(3));
}

void RandomArguments::fill(CUmemPoolProps& value) {
  value.allocType = happens_once_in(6) ? up_to<CUmemAllocationType>(3) : CU_MEM_ALLOCATION_TYPE_PINNED;
  value.handleTypes = happens_once_in(3) ? up_to<CUmemAllocationHandleType>(8) : CU_MEM_HANDLE_TYPE_NONE;
  fill(value.location);
  if (happens_once_in(4)) value.maxSize = size();
  if (happens_once_in(20)) value.usage = static_cast<unsigned short>(choose(4));
}

void RandomArguments::fill(CUmemPoolPtrExportData& value) {
  for (unsigned char& byte : value.reserved) byte = static_cast<unsigned char>(choose(256));
}
void RandomArguments::fill(CUipcMemHandle& value) {
  for (char& byte : value.reserved) byte = static_cast<char>(choose(256));
}
void RandomArguments::fill(CUipcEventHandle& value) {
  for (char& byte : value.reserved) byte = static_cast<char>(choose(256));
}
void RandomArguments::fill(CUdevResource& value) {
  if (!happens_once_in(4) && cuDeviceGetDevResource(device(), &value, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) return;
  value.type = static_cast<CUdevResourceType>(choose(3));
  for (unsigned char& byte : value.internal) byte = static_cast<unsigned char>(choose(256));
  value.sm.smCount = static_cast<unsigned>(choose(200));
}
void RandomArguments::fill(CUuuid& value) {
  for (char& byte : value.bytes) byte = static_cast<char>(choose(256));
}

void RandomArguments::fill(CUcheckpointLockArgs& value) {
  value.timeoutMs = static_cast<unsigned>(choose(3));
  if (happens_once_in(4)) value.reserved1[choose(7)] = random_();
}
void RandomArguments::fill(CUcheckpointReservedArgs& value) {
  if (happens_once_in(2)) value.reserved[choose(8)] = random_();
}
void RandomArguments::fill(CUcheckpointRestoreArgs& value) {
  if (happens_once_in(2)) return;
  value.gpuPairs = reinterpret_cast<CUcheckpointGpuPair*>(data_);
  value.gpuPairsCount = static_cast<unsigned>(one_of({1, 2, 4000}));
}

void RandomArguments::fill(LaunchAttributeValue& value) {
  for (char& byte : value) byte = static_cast<char>(choose(3));
}

void RandomArguments::fill(CUlaunchConfig& value) {
  value = {static_cast<unsigned>(choose(3)),
           1,
           static_cast<unsigned>(choose(3)),
           static_cast<unsigned>(one_of({1, 32, 1024, 1025, 0})),
           1,
           1,
           static_cast<unsigned>(size()),
           handle_of<CUstream>("CUstream"),
           nullptr,
           0};
  if (happens_once_in(2)) return;
  value.numAttrs = static_cast<unsigned>(choose(4));
  value.attrs = reinterpret_cast<CUlaunchAttribute*>(data_ + kDataBytes / 2);
  for (unsigned i = 0; i < value.numAttrs; ++i) {
    value.attrs[i] = {};
    value.attrs[i].id = static_cast<int>(choose(16));
    const std::uint64_t first = happens_once_in(2) ? handle("CUevent") : choose(4);
    std::memcpy(value.attrs[i].value, &first, sizeof first);
  }
}

template <class Copy>
void RandomArguments::fill_copy(Copy& copy) {
  const auto type = [&] {
    return happens_once_in(12) ? up_to<CUmemorytype>(5) : static_cast<CUmemorytype>(1 + choose(4));
  };
  copy.srcMemoryType = type();
  copy.dstMemoryType = type();
  copy.srcHost = data_ + choose(16);
  copy.dstHost = data_ + choose(16);
  copy.srcDevice = address();
  copy.dstDevice = address();
  copy.srcArray = handle_of<CUarray>("CUarray");
  copy.dstArray = handle_of<CUarray>("CUarray");
  // With the program's memory on either side, the box must lie in it.
  const bool is_bounded = copy.srcMemoryType == CU_MEMORYTYPE_HOST || copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  const auto extent = [&](std::size_t most) -> std::size_t {
    return is_bounded || !happens_once_in(6) ? choose(most) : size();
  };
  copy.srcXInBytes = extent(8);
  copy.dstXInBytes = extent(8);
  copy.srcY = extent(2);
  copy.dstY = extent(2);
  copy.srcPitch = extent(4096);
  copy.dstPitch = extent(4096);
  copy.WidthInBytes = extent(2048);
  copy.Height = extent(16);
  if constexpr (requires { copy.Depth; }) {
    copy.srcZ = extent(2);
    copy.dstZ = extent(2);
    copy.srcLOD = happens_once_in(10) ? 1 : 0;
    copy.srcHeight = extent(16);
    copy.dstHeight = extent(16);
    copy.Depth = extent(8);
  }
  if constexpr (requires { copy.srcContext; }) {
    copy.srcContext = handle_of<CUcontext>("CUcontext");
    copy.dstContext = handle_of<CUcontext>("CUcontext");
  }
}

void RandomArguments::fill(CUDA_MEMCPY2D& value) { fill_copy(value); }
void RandomArguments::fill(CUDA_MEMCPY3D& value) { fill_copy(value); }
void RandomArguments::fill(CUDA_MEMCPY3D_PEER& value) { fill_copy(value); }

void RandomArguments::fill(CUmemcpyAttributes& value) {
  value.srcAccessOrder = up_to<CUmemcpySrcAccessOrder>(4);
  fill(value.srcLocHint);
  fill(value.dstLocHint);
  value.flags = static_cast<unsigned>(choose(3));
}

void RandomArguments::fill(CUmemcpy3DOperand& value) {
  value.type = up_to<CUmemcpy3DOperandType>(3);
  if (value.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    value.op.array = {handle_of<CUarray>("CUarray"), {choose(3), choose(3), choose(3)}};
  } else {
    value.op.ptr.ptr = address();
    value.op.ptr.rowLength = happens_once_in(4) ? size() : choose(512);
    value.op.ptr.layerHeight = happens_once_in(4) ? size() : choose(16);
    fill(value.op.ptr.locHint);
  }
}

void RandomArguments::fill(CUDA_MEMCPY3D_BATCH_OP& value) {
  fill(value.src);
  fill(value.dst);
  value.extent = {happens_once_in(8) ? size() : choose(512), choose(16), choose(8)};
  value.srcAccessOrder = up_to<CUmemcpySrcAccessOrder>(4);
  value.flags = static_cast<unsigned>(choose(3));
}

void RandomArguments::fill(CUDA_ARRAY_DESCRIPTOR& value) {
  value = {happens_once_in(8) ? size() : choose(512), choose(32),
           static_cast<CUarray_format>(one_of({1, 2, 3, 16, 32, 5})), static_cast<unsigned>(one_of({1, 2, 4, 3}))};
}

void RandomArguments::fill(CUDA_ARRAY3D_DESCRIPTOR& value) {
  CUDA_ARRAY_DESCRIPTOR flat;
  fill(flat);
  value = {flat.Width,  flat.Height,      choose(12),
           flat.Format, flat.NumChannels, static_cast<unsigned>(happens_once_in(2) ? choose(64) : 0)};
}

void RandomArguments::fill(CUDA_RESOURCE_DESC& value) {
  value.resType = up_to<CUresourcetype>(4);
  const auto format = static_cast<CUarray_format>(one_of({1, 2, 3, 16, 32, 5}));
  switch (value.resType) {
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      value.res.mipmap.hMipmappedArray = handle_of<CUmipmappedArray>("CUmipmappedArray");
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      value.res.linear = {address(), format, static_cast<unsigned>(choose(5)), size()};
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      value.res.pitch2D = {address(), format, static_cast<unsigned>(choose(5)), size(), choose(64), size()};
      break;
    default:
      value.res.array.hArray = handle_of<CUarray>("CUarray");
  }
  value.flags = static_cast<unsigned>(happens_once_in(10));
}

void RandomArguments::fill(CUDA_TEXTURE_DESC& value) {
  for (int& mode : value.addressMode) mode = static_cast<int>(choose(5));
  value.filterMode = static_cast<int>(choose(3));
  value.flags = static_cast<unsigned>(choose(8));
}

void RandomArguments::fill(CUDA_RESOURCE_VIEW_DESC& value) {
  value.format = static_cast<int>(choose(40));
  value.width = size();
  value.height = choose(64);
  value.lastMipmapLevel = static_cast<unsigned>(choose(4));
}

void RandomArguments::fill(CUgraphEdgeData& value) {
  if (!happens_once_in(4)) return;
  value.from_port = static_cast<unsigned char>(choose(4));
  value.type = static_cast<unsigned char>(choose(3));
  value.reserved[0] = static_cast<unsigned char>(happens_once_in(4));
}

void RandomArguments::fill(CUDA_MEMSET_NODE_PARAMS& value) {
  value = {address(),
           happens_once_in(4) ? size() : 0,
           static_cast<unsigned>(choose(256)),
           static_cast<unsigned>(one_of({1, 2, 4, 3})),
           happens_once_in(6) ? size() : choose(512),
           one_of({0, 1, 1, 1, 4, ~std::uint64_t{0}})};
}

void RandomArguments::fill(CUDA_HOST_NODE_PARAMS& value) {
  value = {happens_once_in(10) ? nullptr : known_function(CUhostFn{}), nullptr};
}

void RandomArguments::fill(CUDA_MEM_ALLOC_NODE_PARAMS& value) {
  fill(value.poolProps);
  value.bytesize = size();
  if (happens_once_in(2)) return;
  auto* const descriptors = reinterpret_cast<CUmemAccessDesc*>(data_ + kDataBytes / 2 + 4096);
  value.accessDescCount = choose(3);
  for (std::size_t i = 0; i < value.accessDescCount; ++i) fill(descriptors[i]);
  value.accessDescs = happens_once_in(10) ? nullptr : descriptors;
}

template <class Node>
void RandomArguments::fill_kernel(Node& node) {
  node.func = handle_of<CUfunction>("CUfunction");
  node.gridDimX = static_cast<unsigned>(choose(3));
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.blockDimX = static_cast<unsigned>(one_of({1, 32, 1024, 1025, 0}));
  node.sharedMemBytes = happens_once_in(4) ? static_cast<unsigned>(size()) : 0;
  auto** const parameters = reinterpret_cast<void**>(data_ + kDataBytes / 2 + 8192);
  for (std::size_t i = 0; i < kMostElements; ++i) parameters[i] = data_ + 256 * i;
  node.kernelParams = happens_once_in(4) ? nullptr : parameters;
  if constexpr (requires { node.kern; }) {
    if (happens_once_in(2)) node.kern = handle_of<CUkernel>("CUkernel");
    if (happens_once_in(4)) node.ctx = handle_of<CUcontext>("CUcontext");
  }
}
void RandomArguments::fill(CUDA_KERNEL_NODE_PARAMS& value) { fill_kernel(value); }
void RandomArguments::fill(CUDA_KERNEL_NODE_PARAMS_v1& value) { fill_kernel(value); }

void RandomArguments::fill(CUgraphNodeParams& value) {
  value.type = up_to<CUgraphNodeType>(14);
  switch (value.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      fill(value.kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      fill(value.memcpy.copyParams);
      value.memcpy.copyCtx = handle_of<CUcontext>("CUcontext");
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS memset{};
      fill(memset);
      value.memset = {memset.dst,
                      memset.pitch,
                      memset.value,
                      memset.elementSize,
                      memset.width,
                      memset.height,
                      handle_of<CUcontext>("CUcontext")};
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      fill(value.host);
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      value.graph = {handle_of<CUgraph>("CUgraph"), up_to<CUgraphChildGraphNodeOwnership>(2)};
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      value.event = handle_of<CUevent>("CUevent");
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      fill(value.alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      value.free = address();
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      value.conditional = {made("CUgraphConditionalHandle", choose(4)), up_to<CUgraphConditionalNodeType>(3),
                           static_cast<unsigned>(choose(4)), nullptr, handle_of<CUcontext>("CUcontext")};
      break;
    default:
      break;
  }
}

void RandomArguments::fill(CUDA_GRAPH_INSTANTIATE_PARAMS& value) {
  value.flags = choose(16);
  value.hUploadStream = handle_of<CUstream>("CUstream");
}
void RandomArguments::fill(CUgraphExecUpdateResultInfo&) {}

}  // namespace memlake::test
