// The shim between PyTorch and memlake: makes memlake the CUDA allocator of a PyTorch process. memlake.torch compiles
// it against the installed PyTorch and calls the functions below.

#include <exception>
#include <string>

#include "allocator.hpp"

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("memlake", memlake_torch::MemlakeRoom);
}

#define SHIM_API extern "C" __attribute__((visibility("default")))

namespace memlake_torch {
namespace {

Allocator* installed = nullptr;  // made once and never destroyed: tensors are freed until the process ends

void give_back(void* address) {
  if (address != nullptr) installed->raw_delete(address);
}

std::string& reason() {
  thread_local std::string text;
  return text;
}

/// 0, or -1 with reason().
template <class Work>
int code_from(Work work) noexcept {
  try {
    work();
    return 0;
  } catch (const c10::Error& error) {
    reason() = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason() = error.what();
  } catch (...) {
    reason() = "an unknown exception";
  }
  return -1;
}

void make_current(CUDAAllocator* allocator) {
  c10::cuda::CUDACachingAllocator::allocator.store(allocator);
  // PyTorch's own registration has a lower priority; torch.accelerator asks this registry.
  c10::SetAllocator(c10::kCUDA, allocator, 100);
}

}  // namespace
}  // namespace memlake_torch

using namespace memlake_torch;

/// PyTorch's minor version that this file was compiled for. To be asked before anything else.
SHIM_API int memlake_shim_torch_minor(void) { return TORCH_VERSION_MINOR; }

/// The reason of the calling thread's last failure.
SHIM_API const char* memlake_shim_last_error(void) { return reason().c_str(); }

/// From now on PyTorch's memory of these devices comes from memlake. `conf`: as for memlake_pool_create(). `served`:
/// one bit per device.
SHIM_API int memlake_shim_install(const char* conf, unsigned long long served) {
  return code_from([&] {
    CUDAAllocator* const current = c10::cuda::CUDACachingAllocator::get();
    if (installed == nullptr) installed = new Allocator(*current, &give_back);
    TORCH_CHECK(current == &installed->native() || current == installed, "PyTorch's allocator was changed to ",
                current->name());
    installed->configure(conf, served);
    make_current(installed);
  });
}

/// From now on PyTorch's memory comes from its own allocator. Live tensors keep their memory.
SHIM_API int memlake_shim_uninstall(void) {
  return code_from([&] {
    if (installed == nullptr) return;
    make_current(&installed->native());
    installed->end();
  });
}

/// Whether a history that the calling thread turns on or off is about memlake's memory only.
SHIM_API void memlake_shim_set_history_apart(int is_apart) { Allocator::set_history_apart(is_apart != 0); }
