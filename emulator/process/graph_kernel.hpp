#pragma once

// Kernel nodes: their parameters as the program gives and gets them, and their attributes. A node exists only where
// launches are skipped (kernels=skip).

#include "graphs/graph_node.hpp"
#include "process/driver.hpp"

namespace memlake::emulator {

/// The node of a launch whose shape and parameters are checked. `handle` is what the program passed for the function.
KernelNode kernel_node(const Function& function, CUfunction handle, const LaunchShape& shape, std::vector<char> bytes,
                       bool is_extra);

/// Throws as a launch does. A node that exists keeps its attributes `now`.
KernelNode kernel_params(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& params, const Origin& origin,
                         const KernelNode* now = nullptr);

/// The parameters of the first version, which has no `kern` and no `ctx`.
[[nodiscard]] inline CUDA_KERNEL_NODE_PARAMS without_kernel(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  return {params.func,         params.gridDimX,  params.gridDimY,  params.gridDimZ,
          params.blockDimX,    params.blockDimY, params.blockDimZ, params.sharedMemBytes,
          params.kernelParams, params.extra,     nullptr,          nullptr};
}

/// The parameters for the program. A kernel of a library is in `kern`, a function of a module in `func`.
CUDA_KERNEL_NODE_PARAMS told_params(Driver& driver, const KernelNode& node);

/// Throws 1 for a node of another kind, and 801 for a node of work that only declares its memory.
const KernelNode& as_kernel(const NodeParams& params);

/// The function that the node launches. The use of an unloaded one is a violation.
Function& function_of(Driver& driver, const KernelNode& node, const Origin& origin);

/// Throws as a launch with this attribute does.
void set_attribute(Driver& driver, KernelNode& node, int id, const LaunchAttributeValue& value, const Origin& origin);
[[nodiscard]] LaunchAttributeValue attribute_of(const KernelNode& node, int id);

}  // namespace memlake::emulator
