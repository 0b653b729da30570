#include "entries/copying.hpp"

#include "process/graph_params.hpp"

namespace memlake::emulator {

namespace {

/// The parameters of a copy node. The memory types say on which side each address lies.
CUDA_MEMCPY3D node_params(const Box& destination, const Box& source, const Extent& extent) {
  CUDA_MEMCPY3D params{};
  const auto type_of_side = [](const Box& box) {
    if (box.place.side == Side::host) return CU_MEMORYTYPE_HOST;
    return box.place.side == Side::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  };
  params.srcMemoryType = type_of_side(source);
  params.dstMemoryType = type_of_side(destination);
  if (source.place.side == Side::host) {
    params.srcHost = reinterpret_cast<const void*>(source.place.address);
  } else {
    params.srcDevice = source.place.address;
  }
  if (destination.place.side == Side::host) {
    params.dstHost = reinterpret_cast<void*>(destination.place.address);
  } else {
    params.dstDevice = destination.place.address;
  }
  params.WidthInBytes = extent.width;
  params.Height = extent.height;
  params.Depth = extent.depth;
  params.srcPitch = source.pitch;
  params.dstPitch = destination.pitch;
  params.srcHeight = source.pitch == 0 ? 0 : source.slice / source.pitch;
  params.dstHeight = destination.pitch == 0 ? 0 : destination.slice / destination.pitch;
  return params;
}

}  // namespace

void run_and_wait(Session& session, Stream& stream, Work work) {
  const std::uint64_t context = stream.context;
  session.driver.run_and_wait(session.lock, stream, std::move(work));
  session.driver.contexts.check_alive(context);  // work in front may have failed, and then nothing was copied
}

namespace {

/// Whether a synchronous function must wait for its work on this memory.
bool syncs(const Driver& driver, const Context& context, const Touch& touch, Completes completes) {
  return completes == Completes::later_unless_synced &&
         ((context.flags & CU_CTX_SYNC_MEMOPS) != 0 || driver.memory.syncs_memops(touch.address, touch.size));
}

}  // namespace

void copy(Session& session, CUstream handle, Box destination, Box source, const Extent& extent, Completes completes) {
  Driver& driver = session.driver;
  Stream& stream = driver.streams.find(handle);
  if (extent.is_empty()) return;
  const Context& own = *driver.contexts.find(stream.context);
  for (Box* box : {&destination, &source}) {
    if (box->place.context == nullptr) box->place.context = &own;
    check_extent(*box, extent);
  }
  if (completes == Completes::later && driver.captures.is_capturing(stream)) {
    driver.captures.add(stream, copy_params(driver, node_params(destination, source, extent), as_handle(own)),
                        session.origin);
    return;
  }
  const Touch written{destination.place.address, extent.span(destination), true};
  const Touch read{source.place.address, extent.span(source), false};
  check_place(driver, destination.place, written.size, true, "destination");
  check_place(driver, source.place, read.size, false, "source");
  Work work = copy_work(driver, session.origin, destination, source, extent);
  driver.pools.allocations().check_made(driver.streams.before(stream), work.touches);
  if (completes != Completes::before_return && is_pageable(driver, source.place, read.size) &&
      driver.memory.has_bytes(written.address, written.size))
    stage_source(driver, work, destination, source, extent);
  Device& reader = *source.place.context->device;  // the contexts may end while the call waits
  Device& writer = *destination.place.context->device;
  // A copy to pageable memory returns when the bytes are there, also when it is called asynchronous.
  if (completes == Completes::before_return || syncs(driver, own, written, completes) ||
      syncs(driver, own, read, completes) || is_pageable(driver, destination.place, written.size)) {
    run_and_wait(session, stream, std::move(work));
  } else {
    driver.enqueue(stream, std::move(work));
  }
  migrate(driver, source.place.side, reader, read);
  migrate(driver, destination.place.side, writer, written);
}

void fill(Session& session, CUstream handle, Box destination, unsigned value, unsigned element, const Rows& rows,
          Completes completes) {
  Driver& driver = session.driver;
  Stream& stream = driver.streams.find(handle);
  const std::uint64_t address = destination.place.address;
  if (address % element != 0) invalid("the destination ", Hex{address}, " is not aligned to ", element, " bytes");
  if (rows.count > SIZE_MAX / element) invalid("count ", rows.count, " is too large");
  const Extent extent{rows.count * element, rows.height};
  if (extent.is_empty()) return;
  destination.place.context = driver.contexts.find(stream.context);
  check_extent(destination, extent);
  if (driver.captures.is_capturing(stream)) {
    const CUDA_MEMSET_NODE_PARAMS_v2 params{address,
                                            destination.pitch,
                                            value,
                                            element,
                                            rows.count,
                                            rows.height,
                                            reinterpret_cast<CUcontext>(stream.context)};
    driver.captures.add(stream, fill_params(driver, params), session.origin);
    return;
  }
  const Touch written{address, extent.span(destination), true};
  check_place(driver, destination.place, written.size, true, "destination");
  Work work = fill_work(driver, session.origin, destination, value, element, extent);
  driver.pools.allocations().check_made(driver.streams.before(stream), work.touches);
  Device& writer = *stream.device;
  // Memsets, also the ones without a stream, do not wait (unless the target is host memory).
  if (driver.memory.is_device_address(address) && !syncs(driver, *destination.place.context, written, completes)) {
    driver.enqueue(stream, std::move(work));
  } else {
    run_and_wait(session, stream, std::move(work));
  }
  migrate(driver, Side::device, writer, written);
}

Box array_box(Session& session, CUarray handle, std::uint64_t x, std::uint64_t y, std::uint64_t z,
              const Extent& extent) {
  const Array& array = session.driver.arrays.find(handle);
  const auto fits = [](std::uint64_t start, std::uint64_t size, std::uint64_t all) {
    return start <= all && size <= all - start;
  };
  if (!fits(x, extent.width, array.pitch()) || !fits(y, extent.height, array.height()) ||
      !fits(z, extent.depth, array.depth()))
    invalid("the box of ", extent.width, " bytes x ", extent.height, " x ", extent.depth, " from byte ", x, ", row ", y,
            ", plane ", z, " on is not in the array of ", array.pitch(), " bytes x ", array.height(), " x ",
            array.depth());
  const std::uint64_t slice = array.pitch() * array.height();
  return {device_place(array.address + z * slice + y * array.pitch() + x), array.pitch(), slice};
}

Place peer_place(Session& session, CUdeviceptr address, CUcontext context) {
  const Context* found = session.driver.contexts.find(context);
  if (found == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
  return {address, Side::device, found};
}

}  // namespace memlake::emulator
