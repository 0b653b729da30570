#pragma once

// Libraries: images that belong to no context. A library is loaded into a context as a module when it is first used
// there. Its kernels belong to no context either.

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "code/module.hpp"

namespace memlake::emulator {

struct Library;

struct Kernel {
  std::uint64_t handle;
  Library* library;
  std::size_t index;                            ///< of the kernel in the image
  std::map<int, KernelSettings> settings = {};  ///< by the ordinal of the device

  [[nodiscard]] const KernelImage& image() const;
};

struct Library {
  std::uint64_t handle;
  std::shared_ptr<const Image> image;
  Origin made_by;
  std::vector<std::uint64_t> kernels = {};                        ///< by the index of the kernel in the image
  std::unordered_map<std::uint64_t, std::uint64_t> modules = {};  ///< module by context
};

class Libraries {
 public:
  Libraries(Contexts& contexts, Modules& modules) : contexts_(contexts), modules_(modules) {}

  Library& add(std::shared_ptr<const Image> image, const Origin& origin);

  /// Removes the library and its modules of all contexts. pre: no work runs on their variables.
  void remove(Library& library);

  /// Throws 400 for a handle that is no library; the handle of an unloaded one is a violation.
  Library& find(CUlibrary handle);
  Kernel& find(CUkernel handle);
  Kernel& kernel(Library& library, std::size_t index);
  /// Throws 500 if the image has no kernel of this name.
  Kernel& kernel(Library& library, std::string_view name);

  /// The library's module in a context, loaded with the first use.
  Module& module_in(Library& library, Context& context, const Origin& origin);
  Function& function_in(Kernel& kernel, Context& context, const Origin& origin);

  /// Finds a function, or the function of a kernel in `context`: CUDA accepts a CUkernel in place of a CUfunction.
  Function& function_of(CUfunction handle, Context& context, const Origin& origin);
  [[nodiscard]] bool is_kernel(CUfunction handle) const;

  void drop_context(const Context& context);

  [[nodiscard]] const std::unordered_map<std::uint64_t, std::unique_ptr<Library>>& all() const { return libraries_; }

 private:
  Contexts& contexts_;
  Modules& modules_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Library>> libraries_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Kernel>> kernels_;
  std::uint64_t next_library_ = 1;
  std::uint64_t next_kernel_ = 1;
};

inline CUlibrary as_handle(const Library& library) { return reinterpret_cast<CUlibrary>(library.handle); }
inline CUkernel as_handle(const Kernel& kernel) { return reinterpret_cast<CUkernel>(kernel.handle); }

}  // namespace memlake::emulator
