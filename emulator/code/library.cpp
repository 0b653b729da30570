#include "code/library.hpp"

#include <algorithm>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kLibraryBase = 0x0B0'0000'0000'0000;  // distinct ranges; values are never reused
constexpr std::uint64_t kKernelBase = 0x0A0'0000'0000'0000;

[[noreturn]] void missing(const char* what, std::uint64_t handle, bool was_issued) {
  if (was_issued)
    throw Violation{text(what, " ", Hex{handle}, " is used after its library was unloaded"), CUDA_ERROR_INVALID_HANDLE};
  refuse(CUDA_ERROR_INVALID_HANDLE, "there is no ", what, " ", Hex{handle});
}

}  // namespace

const KernelImage& Kernel::image() const { return library->image->kernels[index]; }

Library& Libraries::add(std::shared_ptr<const Image> image, const Origin& origin) {
  const std::uint64_t handle = kLibraryBase + kHandleStep * next_library_++;
  auto made = std::make_unique<Library>(Library{.handle = handle, .image = std::move(image), .made_by = origin});
  made->kernels.resize(made->image->kernels.size());
  return *libraries_.emplace(handle, std::move(made)).first->second;
}

void Libraries::remove(Library& library) {
  for (const auto& [context, module] : library.modules) modules_.unload(*modules_.all().at(module));
  for (const std::uint64_t kernel : library.kernels) kernels_.erase(kernel);
  const std::uint64_t handle = library.handle;
  libraries_.erase(handle);
}

Library& Libraries::find(CUlibrary handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  const auto found = libraries_.find(value);
  if (found == libraries_.end())
    missing("library", value, value > kLibraryBase && value < kLibraryBase + kHandleStep * next_library_);
  return *found->second;
}

Kernel& Libraries::find(CUkernel handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  const auto found = kernels_.find(value);
  if (found == kernels_.end())
    missing("kernel", value, value > kKernelBase && value < kKernelBase + kHandleStep * next_kernel_);
  return *found->second;
}

Kernel& Libraries::kernel(Library& library, std::size_t index) {
  if (library.kernels[index] != 0) return *kernels_.at(library.kernels[index]);
  const std::uint64_t handle = kKernelBase + kHandleStep * next_kernel_++;
  library.kernels[index] = handle;
  auto made = std::make_unique<Kernel>(Kernel{.handle = handle, .library = &library, .index = index});
  return *kernels_.emplace(handle, std::move(made)).first->second;
}

Kernel& Libraries::kernel(Library& library, std::string_view name) {
  const auto& kernels = library.image->kernels;
  const auto found = std::ranges::find(kernels, name, &KernelImage::name);
  if (found == kernels.end())
    refuse(CUDA_ERROR_NOT_FOUND, "the library has no kernel '", name, "' among its ", kernels.size());
  return kernel(library, static_cast<std::size_t>(found - kernels.begin()));
}

Module& Libraries::module_in(Library& library, Context& context, const Origin& origin) {
  if (const auto found = library.modules.find(context.handle); found != library.modules.end())
    return *modules_.all().at(found->second);
  Module& made = modules_.load(context, library.image, true, origin);
  library.modules.emplace(context.handle, made.handle);
  return made;
}

Function& Libraries::function_in(Kernel& kernel, Context& context, const Origin& origin) {
  Function& function = modules_.function(module_in(*kernel.library, context, origin), kernel.index);
  if (function.of_kernel == nullptr) function.of_kernel = &kernel.settings[context.device->ordinal];
  return function;
}

bool Libraries::is_kernel(CUfunction handle) const {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  return value > kKernelBase && value < kKernelBase + kHandleStep * next_kernel_;
}

Function& Libraries::function_of(CUfunction handle, Context& context, const Origin& origin) {
  if (is_kernel(handle)) return function_in(find(reinterpret_cast<CUkernel>(handle)), context, origin);
  return modules_.find_function(reinterpret_cast<std::uint64_t>(handle));
}

void Libraries::drop_context(const Context& context) {
  for (const auto& [handle, library] : libraries_) library->modules.erase(context.handle);
}

}  // namespace memlake::emulator
