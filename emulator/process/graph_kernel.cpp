#include "process/graph_kernel.hpp"

#include <utility>

namespace memlake::emulator {

namespace {

Function& function_in_params(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& params, const Origin& origin) {
  if (params.func == nullptr && params.kern == nullptr) invalid("func and kern are NULL; one must be a kernel");
  if (params.func != nullptr && !driver.libraries.is_kernel(params.func))
    return driver.modules.find_function(reinterpret_cast<std::uint64_t>(params.func));  // its own context counts
  Context* context = params.ctx == nullptr ? &driver.contexts.current() : driver.contexts.find(params.ctx);
  if (context == nullptr)
    refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(params.ctx));
  const CUkernel kernel = params.func != nullptr ? reinterpret_cast<CUkernel>(params.func) : params.kern;
  return driver.libraries.function_in(driver.libraries.find(kernel), *context, origin);
}

}  // namespace

KernelNode kernel_node(const Function& function, CUfunction handle, const LaunchShape& shape, std::vector<char> bytes,
                       bool is_extra) {
  return {.handle = reinterpret_cast<std::uint64_t>(handle),
          .context = function.module->context,
          .name = function.image->name,
          .shape = shape,
          .arguments = std::make_shared<KernelArguments>(*function.image, std::move(bytes), is_extra)};
}

KernelNode kernel_params(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& params, const Origin& origin,
                         const KernelNode* now) {
  const Function& function = function_in_params(driver, params, origin);
  check_kernels_are_skipped(function);
  const LaunchShape shape{{params.gridDimX, params.gridDimY, params.gridDimZ},
                          {params.blockDimX, params.blockDimY, params.blockDimZ},
                          params.sharedMemBytes,
                          now != nullptr && now->shape.is_cooperative};
  check_shape(function, shape);
  const CUfunction handle = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  KernelNode node =
      kernel_node(function, handle, shape, read_parameters(*function.image, params.kernelParams, params.extra),
                  params.extra != nullptr);
  if (now != nullptr) node.attributes = now->attributes;
  return node;
}

CUDA_KERNEL_NODE_PARAMS told_params(Driver& driver, const KernelNode& node) {
  const auto handle = reinterpret_cast<CUfunction>(node.handle);
  const bool is_kernel = driver.libraries.is_kernel(handle);
  const auto& [grid, block, shared, is_cooperative] = node.shape;
  return {.func = is_kernel ? nullptr : handle,
          .gridDimX = grid[0],
          .gridDimY = grid[1],
          .gridDimZ = grid[2],
          .blockDimX = block[0],
          .blockDimY = block[1],
          .blockDimZ = block[2],
          .sharedMemBytes = shared,
          .kernelParams = node.arguments->pointers(),
          .extra = node.arguments->extra(),
          .kern = is_kernel ? reinterpret_cast<CUkernel>(handle) : nullptr,
          .ctx = reinterpret_cast<CUcontext>(node.context)};
}

const KernelNode& as_kernel(const NodeParams& params) {
  if (const auto* node = std::get_if<KernelNode>(&params)) return *node;
  if (std::holds_alternative<DeclaredNode>(params))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the node is work that declares its memory (memlakeEmulatorLaunch): it has no ",
           "kernel, and it cannot change");
  invalid("the node is of kind ", name_of(type_of(params)));
}

Function& function_of(Driver& driver, const KernelNode& node, const Origin& origin) {
  driver.contexts.check_alive(node.context);
  return driver.libraries.function_of(reinterpret_cast<CUfunction>(node.handle), *driver.contexts.find(node.context),
                                      origin);
}

void set_attribute(Driver& driver, KernelNode& node, int id, const LaunchAttributeValue& value, const Origin& origin) {
  check_is_of_node(id);
  check_attribute(id, value);
  if (id != kCooperativeAttribute) {
    node.attributes[id] = value;
    return;
  }
  LaunchShape shape = node.shape;
  shape.is_cooperative = number_of(value) != 0;
  check_shape(function_of(driver, node, origin), shape);
  node.shape = shape;
}

LaunchAttributeValue attribute_of(const KernelNode& node, int id) {
  check_is_of_node(id);
  if (id == kCooperativeAttribute) return attribute_value(node.shape.is_cooperative ? 1 : 0);
  const auto found = node.attributes.find(id);
  return found == node.attributes.end() ? LaunchAttributeValue{} : found->second;
}

}  // namespace memlake::emulator
