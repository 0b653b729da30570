// Copies between linear memory and arrays: of bytes in the order in which the elements lie.

#include "entries/copying.hpp"

namespace memlake::emulator {

namespace {

Place array_place(Session& session, CUarray handle, size_t offset, size_t bytes) {
  const Array& array = session.driver.arrays.find(handle);
  if (offset > array.bytes() || bytes > array.bytes() - offset)
    invalid(bytes, " bytes from byte ", offset, " on are not in the array of ", array.bytes(), " bytes");
  return device_place(array.address + offset);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemcpyDtoA_v2(CUarray destination, size_t offset, CUdeviceptr source, size_t bytes) {
  return enter(Call::cuMemcpyDtoA_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, array_place(session, destination, offset, bytes), device_place(source), bytes,
              Completes::later_unless_synced);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr destination, CUarray source, size_t offset, size_t bytes) {
  return enter(Call::cuMemcpyAtoD_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, device_place(destination), array_place(session, source, offset, bytes), bytes,
              Completes::later_unless_synced);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoA_v2(CUarray destination, size_t offset, const void* source, size_t bytes) {
  return enter(Call::cuMemcpyHtoA_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, array_place(session, destination, offset, bytes), host_place(source), bytes,
              Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAtoH_v2(void* destination, CUarray source, size_t offset, size_t bytes) {
  return enter(Call::cuMemcpyAtoH_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, host_place(destination), array_place(session, source, offset, bytes), bytes,
              Completes::before_return);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAtoA_v2(CUarray destination, size_t to, CUarray source, size_t from, size_t bytes) {
  return enter(Call::cuMemcpyAtoA_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, nullptr, array_place(session, destination, to, bytes), array_place(session, source, from, bytes),
              bytes, Completes::later_unless_synced);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray destination, size_t offset, const void* source, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyHtoAAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, array_place(session, destination, offset, bytes), host_place(source), bytes,
              Completes::later);
  });
}

MEMLAKE_EXPORT CUresult cuMemcpyAtoHAsync_v2(void* destination, CUarray source, size_t offset, size_t bytes,
                                             CUstream stream) {
  return enter(Call::cuMemcpyAtoHAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    copy_line(session, stream, host_place(destination), array_place(session, source, offset, bytes), bytes,
              Completes::later);
  });
}

}  // namespace memlake::emulator
