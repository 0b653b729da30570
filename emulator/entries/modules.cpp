// Modules: load, unload, kernels and variables.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "code/jit_options.hpp"
#include "entries/entry.hpp"
#include "entries/images.hpp"

namespace memlake::emulator {

namespace {

constexpr int kEagerLoading = 1;
constexpr int kLazyLoading = 2;

void load(Session& session, CUmodule* module, const void* image) {
  CUmodule& out = required(module, "module");
  if (image == nullptr) invalid("the image is NULL");
  Context& context = session.driver.contexts.current();
  out = as_handle(session.driver.modules.load(context, read_for(session, *context.device, bytes_of_image(image)), false,
                                              session.origin));
}

}  // namespace

std::shared_ptr<const Image> read_for(Session& session, const Device& device, std::span<const char> bytes) {
  const Target target{architecture_of(device), session.driver.version()};
  return std::make_shared<const Image>(read_image(bytes, target));
}

MEMLAKE_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return enter(Call::cuModuleLoad, MEMLAKE_CALLER, [&](Session& session) {
    CUmodule& out = required(module, "module");
    required(path, "the name of the file");
    Context& context = session.driver.contexts.current();
    out = as_handle(session.driver.modules.load(context, read_for(session, *context.device, copy_of_file(path)), false,
                                                session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return enter(Call::cuModuleLoadData, MEMLAKE_CALLER, [&](Session& session) { load(session, module, image); });
}

MEMLAKE_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options,
                                           void** values) {
  return enter(Call::cuModuleLoadDataEx, MEMLAKE_CALLER, [&](Session& session) {
    JitOptions(count, options, values).log([&] { load(session, module, image); });
  });
}

MEMLAKE_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatbin) {
  return enter(Call::cuModuleLoadFatBinary, MEMLAKE_CALLER, [&](Session& session) { load(session, module, fatbin); });
}

MEMLAKE_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return enter(Call::cuModuleUnload, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    if (driver.modules.find(module).is_of_library)
      refuse(CUDA_ERROR_NOT_PERMITTED, "the module belongs to a library; unload that with cuLibraryUnload");
    driver.wait_for_users(session.lock, driver.modules.find(module));
    driver.modules.unload(driver.modules.find(module));
  });
}

MEMLAKE_EXPORT CUresult cuModuleGetLoadingMode(int* mode) {
  return enter(Call::cuModuleGetLoadingMode, MEMLAKE_CALLER, [&](Session&) {
    const char* wish = std::getenv("CUDA_MODULE_LOADING");
    required(mode, "mode") = wish != nullptr && std::strcmp(wish, "EAGER") == 0 ? kEagerLoading : kLazyLoading;
  });
}

MEMLAKE_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return enter(Call::cuModuleGetFunction, MEMLAKE_CALLER, [&](Session& session) {
    CUfunction& out = required(function, "function");
    required(name, "name");
    Modules& modules = session.driver.modules;
    out = as_handle(modules.function(modules.find(module), name));
  });
}

MEMLAKE_EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  return enter(Call::cuModuleGetFunctionCount, MEMLAKE_CALLER, [&](Session& session) {
    unsigned& out = required(count, "count");
    out = static_cast<unsigned>(session.driver.modules.find(module).image->kernels.size());
  });
}

MEMLAKE_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  return enter(Call::cuModuleEnumerateFunctions, MEMLAKE_CALLER, [&](Session& session) {
    Modules& modules = session.driver.modules;
    Module& found = modules.find(module);
    required(functions, "functions");
    for (std::size_t i = 0; i < std::min<std::size_t>(count, found.functions.size()); ++i)
      functions[i] = as_handle(modules.function(found, i));
  });
}

MEMLAKE_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return enter(Call::cuModuleGetGlobal_v2, MEMLAKE_CALLER, [&](Session& session) {
    if (address == nullptr && bytes == nullptr) invalid("both the address and the size are NULL");
    required(name, "name");
    const ModuleGlobal& global = session.driver.modules.global(session.driver.modules.find(module), name);
    if (address != nullptr) *address = global.address;
    if (bytes != nullptr) *bytes = global.image->size;
  });
}

}  // namespace memlake::emulator
