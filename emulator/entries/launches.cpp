// Launches of kernels.

#include <algorithm>

#include "entries/entry.hpp"
#include "process/graph_kernel.hpp"
#include "work/launch_attributes.hpp"

namespace memlake::emulator {

namespace {

void launch(Session& session, CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** parameters,
            void** extra, const LaunchAttributes& attributes = {}) {
  Driver& driver = session.driver;
  // A kernel belongs to no context: it runs in that of the stream.
  Stream& stream = driver.streams.find(stream_handle);
  Function& function = driver.libraries.function_of(handle, *driver.contexts.find(stream.context), session.origin);
  check_kernels_are_skipped(function);
  if (function.module->context != stream.context)
    refuse(CUDA_ERROR_INVALID_HANDLE, "kernel ", function.image->name, " belongs to a context of device ",
           function.module->device->ordinal, ", the stream to another one of device ", stream.device->ordinal);
  check_shape(function, shape);
  std::vector<char> bytes = read_parameters(*function.image, parameters, extra);
  for (CUevent event : attributes.events) driver.events.find(event);
  if (driver.captures.is_capturing(stream)) {
    if (!attributes.events.empty())
      refuse(CUDA_ERROR_NOT_SUPPORTED, "a captured launch with an attribute that records an event is not emulated");
    KernelNode node = kernel_node(function, handle, shape, std::move(bytes), extra != nullptr);
    node.attributes = attributes.of_node;
    node.attributes.try_emplace(kPriorityAttribute, attribute_value(stream.priority));
    driver.captures.add(stream, std::move(node), session.origin);
    return;
  }
  driver.streams.enqueue(stream, skipped_work(function, session.origin));
  driver.skipped.count(driver.ledger, function, session.origin);
  for (CUevent event : attributes.events) driver.events.record(driver.events.find(event), stream, session.origin);
}

Function& find_function(Session& session, CUfunction handle) {
  return session.driver.libraries.function_of(handle, session.driver.contexts.current(), session.origin);
}

/// CUDA before 4.0: an offset and a size in the parameters, which cuParamSetSize has made room for, or will.
void set_parameter(Session& session, CUfunction handle, int offset, const void* value, std::uint64_t bytes) {
  std::vector<char>& parameters = find_function(session, handle).next.parameters;
  if (bytes > 0) required(static_cast<const char*>(value), "the value");
  if (offset < 0 || static_cast<std::uint64_t>(offset) + bytes > kMostParameterBytes)
    invalid(bytes, " bytes at offset ", offset, " are no parameters");
  const std::uint64_t end = static_cast<std::uint64_t>(offset) + bytes;
  if (parameters.size() < end) parameters.resize(end);
  std::copy_n(static_cast<const char*>(value), bytes, parameters.begin() + offset);
}

void launch_next(Session& session, CUfunction handle, int width, int height, CUstream stream) {
  NextLaunch& next = find_function(session, handle).next;
  if (width < 1 || height < 1) invalid("a grid of ", width, " x ", height, " blocks");
  std::size_t size = next.parameters.size();
  void* extra[] = {reinterpret_cast<void*>(kExtraBuffer), next.parameters.data(), reinterpret_cast<void*>(kExtraSize),
                   &size, reinterpret_cast<void*>(kExtraEnd)};
  launch(session, handle,
         {{static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
          {next.block[0], next.block[1], next.block[2]},
          next.shared},
         stream, nullptr, extra);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return enter(Call::cuFuncSetBlockShape, MEMLAKE_CALLER, [&](Session& session) {
    NextLaunch& next = find_function(session, function).next;
    if (x < 1 || y < 1 || z < 1) invalid("a block of ", x, " x ", y, " x ", z, " threads");
    next.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
  });
}

MEMLAKE_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  return enter(Call::cuFuncSetSharedSize, MEMLAKE_CALLER,
               [&](Session& session) { find_function(session, function).next.shared = bytes; });
}

MEMLAKE_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  return enter(Call::cuParamSetSize, MEMLAKE_CALLER, [&](Session& session) {
    NextLaunch& next = find_function(session, function).next;
    if (bytes > kMostParameterBytes) invalid(bytes, " bytes of parameters; ", kMostParameterBytes, " are possible");
    next.parameters.resize(bytes);
  });
}

MEMLAKE_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  return enter(Call::cuParamSeti, MEMLAKE_CALLER,
               [&](Session& session) { set_parameter(session, function, offset, &value, sizeof value); });
}

MEMLAKE_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return enter(Call::cuParamSetf, MEMLAKE_CALLER,
               [&](Session& session) { set_parameter(session, function, offset, &value, sizeof value); });
}

MEMLAKE_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  return enter(Call::cuParamSetv, MEMLAKE_CALLER,
               [&](Session& session) { set_parameter(session, function, offset, value, bytes); });
}

MEMLAKE_EXPORT CUresult cuLaunch(CUfunction function) {
  return enter(Call::cuLaunch, MEMLAKE_CALLER,
               [&](Session& session) { launch_next(session, function, 1, 1, nullptr); });
}

MEMLAKE_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return enter(Call::cuLaunchGrid, MEMLAKE_CALLER,
               [&](Session& session) { launch_next(session, function, width, height, nullptr); });
}

MEMLAKE_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return enter(Call::cuLaunchGridAsync, MEMLAKE_CALLER,
               [&](Session& session) { launch_next(session, function, width, height, stream); });
}

MEMLAKE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                       CUstream stream, void** parameters, void** extra) {
  return enter(Call::cuLaunchKernel, MEMLAKE_CALLER, [&](Session& session) {
    launch(session, function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, parameters,
           extra);
  });
}

MEMLAKE_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                         void** extra) {
  return enter(Call::cuLaunchKernelEx, MEMLAKE_CALLER, [&](Session& session) {
    const CUlaunchConfig& wish = required(config, "config");
    const LaunchAttributes attributes = read_attributes(wish);
    launch(session, function,
           {{wish.gridDimX, wish.gridDimY, wish.gridDimZ},
            {wish.blockDimX, wish.blockDimY, wish.blockDimZ},
            wish.sharedMemBytes,
            attributes.is_cooperative},
           wish.hStream, parameters, extra, attributes);
  });
}

MEMLAKE_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                                  unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                                  unsigned shared, CUstream stream, void** parameters) {
  return enter(Call::cuLaunchCooperativeKernel, MEMLAKE_CALLER, [&](Session& session) {
    launch(session, function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, true}, stream, parameters,
           nullptr);
  });
}

}  // namespace memlake::emulator
