// Launches of kernels.

#include "entries/entry.hpp"
#include "graph_kernel.hpp"
#include "launch_attributes.hpp"

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
  for (CUevent event : attributes.events) driver.streams.find_event(event);
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
  for (CUevent event : attributes.events)
    driver.streams.record(driver.streams.find_event(event), stream, session.origin);
}

}  // namespace

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
