// Copies and fills of rectangles and boxes of linear memory and arrays.

#include "entries/copying.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kMostPitch = 2147483647;  // MAX_PITCH of the device attributes

/// One side of a CUDA_MEMCPY2D or CUDA_MEMCPY3D.
struct Operand {
  const char* name;
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  CUcontext context;  ///< peer copies only
  std::size_t pitch;
  std::size_t height;
  std::size_t x;
  std::size_t y;
  std::size_t z;
  std::size_t lod;
};

Place place_of(Session& session, const Operand& operand, bool is_peer) {
  switch (operand.type) {
    case CU_MEMORYTYPE_HOST:
      return host_place(operand.host);
    case CU_MEMORYTYPE_DEVICE:
      return is_peer ? peer_place(session, operand.device, operand.context) : device_place(operand.device);
    case CU_MEMORYTYPE_UNIFIED:
      return any_place(operand.device);
    case CU_MEMORYTYPE_ARRAY:
      break;  // an array is no place in linear memory
  }
  invalid("the memory type ", +operand.type, " of the ", operand.name, " is unknown");
}

/// pre: the extent is not empty.
Box box_of(Session& session, const Operand& operand, const Extent& extent, bool is_peer) {
  if (operand.lod != 0) invalid("the LOD of the ", operand.name, " is ", operand.lod, ", not 0");
  if (operand.type == CU_MEMORYTYPE_ARRAY)
    return array_box(session, operand.array, operand.x, operand.y, operand.z, extent);
  Box box{place_of(session, operand, is_peer), operand.pitch};
  if (box.place.address == 0) invalid("the ", operand.name, " is NULL");
  const bool is_one_row = extent.height == 1 && extent.depth == 1 && operand.y == 0 && operand.z == 0;
  if (!is_one_row || operand.pitch != 0) {
    if (operand.pitch > kMostPitch) invalid("the pitch ", operand.pitch, " of the ", operand.name, " is too large");
    if (extent.width > operand.pitch || operand.x > operand.pitch - extent.width)
      invalid("rows of ", extent.width, " bytes from byte ", operand.x, " do not fit into the pitch ", operand.pitch,
              " of the ", operand.name);
  }
  if (extent.depth > 1 || operand.z > 0) {
    if (extent.height > operand.height || operand.y > operand.height - extent.height)
      invalid(extent.height, " rows from row ", operand.y, " do not fit into the height ", operand.height, " of the ",
              operand.name);
    if (__builtin_mul_overflow(box.pitch, operand.height, &box.slice)) invalid("the ", operand.name, " is too large");
  }
  // copy() checks the extent from the corner on.
  move_to_corner(session.driver, box, {operand.x, operand.y, operand.z}, operand.name);
  return box;
}

enum class Waits { no, yes };

void copy_box(Session& session, CUstream stream, const Operand& destination, const Operand& source,
              const Extent& extent, Waits waits, bool is_peer = false) {
  session.driver.streams.find(stream);
  if (extent.is_empty()) return;
  const Box to = box_of(session, destination, extent, is_peer);
  const Box from = box_of(session, source, extent, is_peer);
  // As with copies of one row, a copy inside devices does not block the host.
  const bool is_inside = to.place.side == Side::device && from.place.side == Side::device;
  copy(session, stream, to, from, extent,
       waits == Waits::no ? Completes::later
       : is_inside        ? Completes::later_unless_synced
                          : Completes::before_return);
}

void copy_2d(Session& session, const CUDA_MEMCPY2D* given, CUstream stream, Waits waits) {
  const CUDA_MEMCPY2D& c = required(given, "pCopy");
  copy_box(session, stream,
           {"destination", c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, nullptr, c.dstPitch, 0, c.dstXInBytes,
            c.dstY, 0, 0},
           {"source", c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, nullptr, c.srcPitch, 0, c.srcXInBytes,
            c.srcY, 0, 0},
           {c.WidthInBytes, c.Height}, waits);
}

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same fields but for the contexts.
template <class Params>
void copy_3d(Session& session, const Params& c, CUcontext to, CUcontext from, CUstream stream, Waits waits,
             bool is_peer) {
  copy_box(session, stream,
           {"destination", c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, to, c.dstPitch, c.dstHeight,
            c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD},
           {"source", c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, from, c.srcPitch, c.srcHeight, c.srcXInBytes,
            c.srcY, c.srcZ, c.srcLOD},
           {c.WidthInBytes, c.Height, c.Depth}, waits, is_peer);
}

void copy_3d(Session& session, const CUDA_MEMCPY3D* given, CUstream stream, Waits waits) {
  const CUDA_MEMCPY3D& params = required(given, "pCopy");
  if (params.reserved0 != nullptr || params.reserved1 != nullptr) invalid("a reserved field is not NULL");
  copy_3d(session, params, nullptr, nullptr, stream, waits, false);
}

void copy_3d_peer(Session& session, const CUDA_MEMCPY3D_PEER* given, CUstream stream, Waits waits) {
  const CUDA_MEMCPY3D_PEER& params = required(given, "pCopy");
  copy_3d(session, params, params.dstContext, params.srcContext, stream, waits, true);
}

template <class Element>
void fill_2d(Session& session, CUstream stream, CUdeviceptr destination, size_t pitch, Element value, size_t width,
             size_t height, Completes completes) {
  if (pitch % sizeof value != 0) invalid("the pitch ", pitch, " is not a multiple of ", sizeof value, " bytes");
  if (height > 1 && width > pitch / sizeof value)
    invalid("rows of ", width, " elements do not fit into the pitch ", pitch);
  fill(session, stream, {device_place(destination), pitch}, value, sizeof value, {width, height}, completes);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* params) {
  return enter(Call::cuMemcpy2D_v2, MEMLAKE_CALLER,
               [&](Session& session) { copy_2d(session, params, nullptr, Waits::yes); });
}

MEMLAKE_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* params) {
  return enter(Call::cuMemcpy2DUnaligned_v2, MEMLAKE_CALLER,
               [&](Session& session) { copy_2d(session, params, nullptr, Waits::yes); });
}

MEMLAKE_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* params, CUstream stream) {
  return enter(Call::cuMemcpy2DAsync_v2, MEMLAKE_CALLER,
               [&](Session& session) { copy_2d(session, params, stream, Waits::no); });
}

MEMLAKE_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* params) {
  return enter(Call::cuMemcpy3D_v2, MEMLAKE_CALLER,
               [&](Session& session) { copy_3d(session, params, nullptr, Waits::yes); });
}

MEMLAKE_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* params, CUstream stream) {
  return enter(Call::cuMemcpy3DAsync_v2, MEMLAKE_CALLER,
               [&](Session& session) { copy_3d(session, params, stream, Waits::no); });
}

MEMLAKE_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* params) {
  return enter(Call::cuMemcpy3DPeer, MEMLAKE_CALLER,
               [&](Session& session) { copy_3d_peer(session, params, nullptr, Waits::yes); });
}

MEMLAKE_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* params, CUstream stream) {
  return enter(Call::cuMemcpy3DPeerAsync, MEMLAKE_CALLER,
               [&](Session& session) { copy_3d_peer(session, params, stream, Waits::no); });
}

#define MEMLAKE_FILL(symbol, type)                                                                         \
  MEMLAKE_EXPORT CUresult symbol##_v2(CUdeviceptr destination, size_t pitch, type value, size_t width,     \
                                      size_t height) {                                                     \
    return enter(Call::symbol##_v2, MEMLAKE_CALLER, [&](Session& session) {                                \
      fill_2d(session, nullptr, destination, pitch, value, width, height, Completes::later_unless_synced); \
    });                                                                                                    \
  }                                                                                                        \
  MEMLAKE_EXPORT CUresult symbol##Async(CUdeviceptr destination, size_t pitch, type value, size_t width,   \
                                        size_t height, CUstream stream) {                                  \
    return enter(Call::symbol##Async, MEMLAKE_CALLER, [&](Session& session) {                              \
      fill_2d(session, stream, destination, pitch, value, width, height, Completes::later);                \
    });                                                                                                    \
  }

MEMLAKE_FILL(cuMemsetD2D8, unsigned char)
MEMLAKE_FILL(cuMemsetD2D16, unsigned short)
MEMLAKE_FILL(cuMemsetD2D32, unsigned)
#undef MEMLAKE_FILL

}  // namespace memlake::emulator
