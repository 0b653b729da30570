// Copies and fills. Access is checked at the call, and again when the stream reaches the work and the bytes are copied.

#include "entries/copying.hpp"

namespace memlake::emulator {

namespace {

template <class Element>
void fill_line(Session& session, CUstream stream, CUdeviceptr destination, Element value, size_t count,
               Completes completes) {
  fill(session, stream, {device_place(destination)}, value, sizeof value, {count}, completes);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpy, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, any_place(destination), any_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyAsync, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, any_place(destination), any_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  return enter(Call::cuMemcpyHtoD_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, device_place(destination), host_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyHtoDAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, device_place(destination), host_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpyDtoH_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, host_place(destination), device_place(source), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyDtoHAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, host_place(destination), device_place(source), bytes, Completes::later);
  });
}

// A copy inside devices does not block the host.
MEMLAKE_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpyDtoD_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, device_place(destination), device_place(source), bytes, Completes::later_unless_synced);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyDtoDAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, device_place(destination), device_place(source), bytes, Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                     CUcontext source_context, size_t bytes) {
  return enter(Call::cuMemcpyPeer, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, peer_place(session, destination, destination_context),
              peer_place(session, source, source_context), bytes, Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                          CUcontext source_context, size_t bytes, CUstream stream) {
  return enter(Call::cuMemcpyPeerAsync, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, peer_place(session, destination, destination_context),
              peer_place(session, source, source_context), bytes, Completes::later);
  });
}

#define MEMLAKE_FILL(symbol, type)                                                                                    \
  MEMLAKE_EXPORT CUresult symbol##_v2(CUdeviceptr destination, type value, size_t count) {                            \
    return enter(Call::symbol##_v2, MEMLAKE_CALLER, [&](Session& session) {                                           \
      fill_line(session, nullptr, destination, value, count, Completes::later_unless_synced);                         \
    });                                                                                                               \
  }                                                                                                                   \
  MEMLAKE_EXPORT CUresult symbol##Async(CUdeviceptr destination, type value, size_t count, CUstream stream) {         \
    return enter(Call::symbol##Async, MEMLAKE_CALLER,                                                                 \
                 [&](Session& session) { fill_line(session, stream, destination, value, count, Completes::later); }); \
  }

MEMLAKE_FILL(cuMemsetD8, unsigned char)
MEMLAKE_FILL(cuMemsetD16, unsigned short)
MEMLAKE_FILL(cuMemsetD32, unsigned)
#undef MEMLAKE_FILL

}  // namespace memlake::emulator
