// Libraries and their kernels.

#include <algorithm>

#include "code/jit_options.hpp"
#include "entries/entry.hpp"
#include "entries/images.hpp"

namespace memlake::emulator {

namespace {

constexpr int kLibraryOptions = 2;

void check_library_options(unsigned count, const int* options, void** values) {
  if (count == 0) return;
  required(options, "library options");
  required(values, "values of library options");
  for (unsigned i = 0; i < count; ++i)
    if (options[i] < 0 || options[i] >= kLibraryOptions) invalid("library option ", options[i], " is unknown");
}

/// A library belongs to no device. The image is read for the current device, or for the first open one: all emulated
/// devices have one architecture.
const Device& any_device(Session& session) {
  if (const Context* current = session.driver.contexts.current_or_null()) return *current->device;
  for (const auto& device : session.driver.devices.all())
    if (device->is_open) return *device;
  refuse(CUDA_ERROR_NO_DEVICE, "there is no device");
}

void add(Session& session, CUlibrary* library, std::span<const char> bytes) {
  *library = as_handle(session.driver.libraries.add(read_for(session, any_device(session), bytes), session.origin));
}

const ModuleGlobal& find_global(Session& session, CUlibrary library, const char* name) {
  Driver& driver = session.driver;
  required(name, "name");
  Library& found = driver.libraries.find(library);
  Context& context = driver.contexts.current();
  return driver.modules.global(driver.libraries.module_in(found, context, session.origin), name);
}

void give(const ModuleGlobal& global, CUdeviceptr* address, size_t* bytes) {
  if (address != nullptr) *address = global.address;
  if (bytes != nullptr) *bytes = global.image->size;
}

KernelSettings& settings_of(Session& session, Kernel& kernel, CUdevice device) {
  return kernel.settings[session.driver.devices.find(device).ordinal];
}

}  // namespace

MEMLAKE_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                                          void** jit_values, unsigned jit_count, CUlibraryOption* options,
                                          void** values, unsigned count) {
  return enter(Call::cuLibraryLoadData, MEMLAKE_CALLER, [&](Session& session) {
    required(library, "library");
    if (code == nullptr) invalid("the code is NULL");
    check_library_options(count, options, values);
    JitOptions(jit_count, jit_options, jit_values).log([&] { add(session, library, bytes_of_image(code)); });
  });
}

MEMLAKE_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options,
                                              void** jit_values, unsigned jit_count, CUlibraryOption* options,
                                              void** values, unsigned count) {
  return enter(Call::cuLibraryLoadFromFile, MEMLAKE_CALLER, [&](Session& session) {
    required(library, "library");
    required(path, "the name of the file");
    check_library_options(count, options, values);
    JitOptions(jit_count, jit_options, jit_values).log([&] { add(session, library, copy_of_file(path)); });
  });
}

MEMLAKE_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return enter(Call::cuLibraryUnload, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    for (const auto& [context, module] : std::unordered_map(driver.libraries.find(library).modules))
      if (const auto found = driver.modules.all().find(module); found != driver.modules.all().end())
        driver.wait_for_users(session.lock, *found->second);
    driver.libraries.remove(driver.libraries.find(library));
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return enter(Call::cuLibraryGetKernel, MEMLAKE_CALLER, [&](Session& session) {
    CUkernel& out = required(kernel, "kernel");
    required(name, "name");
    Libraries& libraries = session.driver.libraries;
    out = as_handle(libraries.kernel(libraries.find(library), name));
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return enter(Call::cuLibraryGetKernelCount, MEMLAKE_CALLER, [&](Session& session) {
    unsigned& out = required(count, "count");
    out = static_cast<unsigned>(session.driver.libraries.find(library).kernels.size());
  });
}

MEMLAKE_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return enter(Call::cuLibraryEnumerateKernels, MEMLAKE_CALLER, [&](Session& session) {
    Libraries& libraries = session.driver.libraries;
    Library& found = libraries.find(library);
    required(kernels, "kernels");
    for (std::size_t i = 0; i < std::min<std::size_t>(count, found.kernels.size()); ++i)
      kernels[i] = as_handle(libraries.kernel(found, i));
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return enter(Call::cuLibraryGetModule, MEMLAKE_CALLER, [&](Session& session) {
    CUmodule& out = required(module, "module");
    Libraries& libraries = session.driver.libraries;
    Library& found = libraries.find(library);
    out = as_handle(libraries.module_in(found, session.driver.contexts.current(), session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return enter(Call::cuLibraryGetGlobal, MEMLAKE_CALLER, [&](Session& session) {
    if (address == nullptr && bytes == nullptr) invalid("both the address and the size are NULL");
    give(find_global(session, library, name), address, bytes);
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return enter(Call::cuLibraryGetManaged, MEMLAKE_CALLER, [&](Session& session) {
    if (address == nullptr && bytes == nullptr) invalid("both the address and the size are NULL");
    const ModuleGlobal& global = find_global(session, library, name);
    if (global.image->kind != GlobalImage::Kind::managed)
      refuse(CUDA_ERROR_NOT_FOUND, "the variable '", name, "' is not managed");
    give(global, address, bytes);
  });
}

MEMLAKE_EXPORT CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* name) {
  return enter(Call::cuLibraryGetUnifiedFunction, MEMLAKE_CALLER, [&](Session& session) {
    required(function, "function");
    required(name, "name");
    session.driver.libraries.find(library);
    refuse(CUDA_ERROR_NOT_FOUND, "the library has no unified function '", name,
           "'; the emulator reads none from images");
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return enter(Call::cuKernelGetFunction, MEMLAKE_CALLER, [&](Session& session) {
    CUfunction& out = required(function, "function");
    Libraries& libraries = session.driver.libraries;
    Kernel& found = libraries.find(kernel);
    out = as_handle(libraries.function_in(found, session.driver.contexts.current(), session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return enter(Call::cuKernelGetLibrary, MEMLAKE_CALLER, [&](Session& session) {
    CUlibrary& out = required(library, "library");
    out = as_handle(*session.driver.libraries.find(kernel).library);
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return enter(Call::cuKernelGetName, MEMLAKE_CALLER, [&](Session& session) {
    const char*& out = required(name, "name");
    if (kernel == nullptr) invalid("the kernel is NULL");
    out = session.driver.libraries.find(kernel).image().name.c_str();
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetParamCount(CUkernel kernel, size_t* count) {
  return enter(Call::cuKernelGetParamCount, MEMLAKE_CALLER, [&](Session& session) {
    required(count, "count");
    *count = session.driver.libraries.find(kernel).image().parameters.size();
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                             CUdevice device) {
  return enter(Call::cuKernelGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    int& out = required(value, "value");
    Kernel& found = session.driver.libraries.find(kernel);
    out = kernel_attribute(found.image(), *found.library->image, session.driver.devices.find(device),
                           settings_of(session, found, device), nullptr, attribute);
  });
}

MEMLAKE_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                             CUdevice device) {
  return enter(Call::cuKernelSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    Kernel& found = session.driver.libraries.find(kernel);
    set_kernel_attribute(found.image(), session.driver.devices.find(device), settings_of(session, found, device),
                         attribute, value);
  });
}

MEMLAKE_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  return enter(Call::cuKernelSetCacheConfig, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.libraries.find(kernel);
    session.driver.devices.find(device);
    check_cache_config(config);
  });
}

MEMLAKE_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return enter(Call::cuKernelGetParamInfo, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.contexts.current();
    tell_parameter(session.driver.libraries.find(kernel).image(), index, offset, size);
  });
}

}  // namespace memlake::emulator
