#include "code/module.hpp"

#include <algorithm>
#include <cstring>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kModuleBase = 0x0D0'0000'0000'0000;  // distinct ranges; values are never reused
constexpr std::uint64_t kFunctionBase = 0x0F0'0000'0000'0000;

void set_initial_bytes(const Device& device, const GlobalImage& global, std::uint64_t address) {
  if (!device.is_host_backed()) return;
  auto* bytes = reinterpret_cast<char*>(address);
  std::memset(bytes, 0, global.size);
  std::ranges::copy(global.initial, bytes);
}

}  // namespace

Module& Modules::load(Context& context, std::shared_ptr<const Image> image, bool is_of_library, const Origin& origin) {
  const std::uint64_t handle = kModuleBase + kHandleStep * next_module_++;
  auto module = std::make_unique<Module>(Module{.handle = handle,
                                                .context = context.handle,
                                                .device = context.device,
                                                .image = std::move(image),
                                                .is_of_library = is_of_library,
                                                .made_by = origin});
  module->functions.resize(module->image->kernels.size());
  try {
    for (const GlobalImage& global : module->image->globals) {
      const std::uint64_t address =
          plain_.allocate_variable(context, global.size, global.kind == GlobalImage::Kind::managed, origin);
      module->globals.push_back({&global, address});
      set_initial_bytes(*context.device, global, address);
    }
  } catch (...) {
    for (const ModuleGlobal& global : module->globals) plain_.free(global.address);
    throw;
  }
  return *modules_.emplace(handle, std::move(module)).first->second;
}

void Modules::unload(Module& module) {
  for (const ModuleGlobal& global : module.globals) plain_.free(global.address);
  forget(module, false);
}

void Modules::forget(const Module& module, bool is_with_context) {
  if (is_with_context) of_dropped_contexts_.insert(module.handle);
  for (const std::uint64_t function : module.functions) {
    if (is_with_context) of_dropped_contexts_.insert(function);
    functions_.erase(function);
  }
  const std::uint64_t handle = module.handle;
  modules_.erase(handle);
}

Module& Modules::find(CUmodule handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  if (const auto found = modules_.find(value); found != modules_.end()) {
    contexts_.check_alive(found->second->context);
    return *found->second;
  }
  const bool was_issued = value > kModuleBase && value < kModuleBase + kHandleStep * next_module_;
  if (!was_issued || of_dropped_contexts_.contains(value))
    refuse(CUDA_ERROR_INVALID_HANDLE, "there is no module ", Hex{value},
           was_issued ? "; its context was destroyed" : "");
  throw Violation{text("module ", Hex{value}, " is used after it was unloaded"), CUDA_ERROR_INVALID_HANDLE};
}

Function& Modules::find_function(std::uint64_t handle) {
  if (const auto found = functions_.find(handle); found != functions_.end()) {
    contexts_.check_alive(found->second->module->context);
    return *found->second;
  }
  const bool was_issued = handle > kFunctionBase && handle < kFunctionBase + kHandleStep * next_function_;
  if (!was_issued || of_dropped_contexts_.contains(handle))
    refuse(CUDA_ERROR_INVALID_HANDLE, "there is no function ", Hex{handle},
           was_issued ? "; its context was destroyed" : "");
  throw Violation{text("function ", Hex{handle}, " is used after its module was unloaded"), CUDA_ERROR_INVALID_HANDLE};
}

Function& Modules::function(Module& module, std::size_t index) {
  if (module.functions[index] != 0) return *functions_.at(module.functions[index]);
  const std::uint64_t handle = kFunctionBase + kHandleStep * next_function_++;
  auto made =
      std::make_unique<Function>(Function{.handle = handle, .module = &module, .image = &module.image->kernels[index]});
  module.functions[index] = handle;
  return *functions_.emplace(handle, std::move(made)).first->second;
}

Function& Modules::function(Module& module, std::string_view name) {
  const auto& kernels = module.image->kernels;
  const auto found = std::ranges::find(kernels, name, &KernelImage::name);
  if (found == kernels.end())
    refuse(CUDA_ERROR_NOT_FOUND, "the module has no kernel '", name, "' among its ", kernels.size());
  return function(module, static_cast<std::size_t>(found - kernels.begin()));
}

const ModuleGlobal& Modules::global(const Module& module, std::string_view name) {
  const auto found =
      std::ranges::find_if(module.globals, [&](const ModuleGlobal& global) { return global.image->name == name; });
  if (found == module.globals.end())
    refuse(CUDA_ERROR_NOT_FOUND, "the module has no variable '", name, "' among its ", module.globals.size());
  return *found;
}

void Modules::drop_context(const Context& context) {
  std::vector<const Module*> gone;
  for (const auto& [handle, module] : modules_)
    if (module->context == context.handle) gone.push_back(module.get());
  for (const Module* module : gone) forget(*module, true);
}

}  // namespace memlake::emulator
