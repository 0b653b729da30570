#include "abi/torch_exception.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <exception>
#include <typeinfo>

namespace memlake::abi {
namespace {

/// c10::SourceLocation: three fields since PyTorch 1.0.
struct SourceLocation {
  const char* function;
  const char* file;
  std::uint32_t line;
};

/// A constructor of c10::Error or a subclass, as the compiler calls it: the object first, the string by reference.
using Constructor = void (*)(void* object, SourceLocation where, std::string message);

struct ExceptionClass {
  Constructor construct = nullptr;
  std::type_info* type = nullptr;
  [[nodiscard]] bool is_there() const { return construct != nullptr && type != nullptr; }
};

/// More than any version of c10::Error needs. The object is constructed by PyTorch, which knows its size.
constexpr std::size_t kRoom = 1024;

#define OF_ERROR "ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

ExceptionClass find(const char* constructor, const char* type) {
  void* const library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  ExceptionClass found{.construct = reinterpret_cast<Constructor>(dlsym(library, constructor)),
                       .type = static_cast<std::type_info*>(dlsym(library, type))};
  dlclose(library);  // PyTorch keeps it loaded
  return found;
}

const ExceptionClass& out_of_memory() {
  static const ExceptionClass found = find("_ZN3c1016OutOfMemoryErrorC1" OF_ERROR, "_ZTIN3c1016OutOfMemoryErrorE");
  return found;
}

const ExceptionClass& plain_error() {
  static const ExceptionClass found = find("_ZN3c105ErrorC1" OF_ERROR, "_ZTIN3c105ErrorE");
  return found;
}

#undef OF_ERROR

void destroy(void* object) { static_cast<std::exception*>(object)->~exception(); }

[[noreturn]] void throw_as(const ExceptionClass& what, const std::string& message) {
  void* const object = __cxxabiv1::__cxa_allocate_exception(kRoom);
  what.construct(object, {.function = "memlake_torch_malloc_or_throw", .file = "memlake", .line = 0}, message);
  __cxxabiv1::__cxa_throw(object, what.type, &destroy);
}

}  // namespace

bool has_torch_exceptions() { return out_of_memory().is_there() && plain_error().is_there(); }

void throw_torch_out_of_memory(const std::string& message) { throw_as(out_of_memory(), message); }

void throw_torch_error(const std::string& message) { throw_as(plain_error(), message); }

}  // namespace memlake::abi
