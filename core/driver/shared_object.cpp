#include "driver/shared_object.hpp"

#include <dlfcn.h>

#include <utility>

#include "base/error.hpp"

namespace memlake {

SharedObject::SharedObject(const std::string& file) : file_(file), handle_(nullptr) {
  // An empty name would open the program itself.
  if (file.empty()) throw Error(ErrorKind::config, "the name of the driver library is empty");
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* why = dlerror();
    throw Error(ErrorKind::config,
                "cannot load the driver library '" + file + "': " + (why != nullptr ? why : "no reason given"));
  }
}

SharedObject::SharedObject(SharedObject&& other) noexcept
    : file_(std::move(other.file_)), handle_(std::exchange(other.handle_, nullptr)) {}

SharedObject::~SharedObject() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedObject::symbol(const char* name) const noexcept { return dlsym(handle_, name); }

}  // namespace memlake
