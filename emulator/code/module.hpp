#pragma once

// Modules: images that are loaded into a context. A module owns the memory of its variables, and gives out functions,
// which are its kernels.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "basics/origin.hpp"
#include "code/images/image.hpp"
#include "devices/context.hpp"
#include "memory/plain_memory.hpp"

namespace memlake::emulator {

/// The attributes that a program has set, by CUfunction_attribute.
inline constexpr int kFunctionAttributes = 16;
using KernelSettings = std::array<std::optional<int>, kFunctionAttributes>;

struct Module;

/// What the functions of CUDA before 4.0 set for the next launch of a kernel (cuFuncSetBlockShape, cuParamSetSize,
/// ...).
struct NextLaunch {
  std::array<unsigned, 3> block = {1, 1, 1};
  unsigned shared = 0;
  std::vector<char> parameters = {};
};

/// A kernel in one context.
struct Function {
  std::uint64_t handle;
  Module* module;
  const KernelImage* image;
  KernelSettings settings = {};
  const KernelSettings* of_kernel = nullptr;  ///< what cuKernelSetAttribute has set for the device; null if no library
  bool is_loaded = false;
  std::uint64_t* launches = nullptr;  ///< the count of its skipped launches; null before the first
  NextLaunch next = {};
};

struct ModuleGlobal {
  const GlobalImage* image;
  std::uint64_t address;
};

struct Module {
  std::uint64_t handle;
  std::uint64_t context;
  Device* device;
  std::shared_ptr<const Image> image;
  bool is_of_library;
  Origin made_by;
  std::vector<ModuleGlobal> globals = {};
  std::vector<std::uint64_t> functions = {};  ///< by the index of the kernel in the image; 0: not asked for yet
};

class Modules {
 public:
  Modules(Contexts& contexts, PlainMemory& plain) : contexts_(contexts), plain_(plain) {}

  /// Loads an image into a context: allocates its variables and sets their initial values. Throws 2 and leaves nothing.
  Module& load(Context& context, std::shared_ptr<const Image> image, bool is_of_library, const Origin& origin);

  /// Removes a module and frees its variables. pre: no work runs on them.
  void unload(Module& module);

  /// Throws 400 for a handle that is no module. The handle of an unloaded module is a violation, except after the end
  /// of its context.
  Module& find(CUmodule handle);

  /// The function of a handle. Throws as find().
  Function& find_function(std::uint64_t handle);

  /// The function of a kernel of the module. Throws 500 if the image has no kernel of this name.
  Function& function(Module& module, std::string_view name);
  Function& function(Module& module, std::size_t index);

  /// Throws 500 if the module has no variable of this name.
  const ModuleGlobal& global(const Module& module, std::string_view name);

  /// Forgets the modules of a context; PlainMemory frees their variables with the context's other memory.
  void drop_context(const Context& context);

  [[nodiscard]] const std::unordered_map<std::uint64_t, std::unique_ptr<Module>>& all() const { return modules_; }

 private:
  void forget(const Module& module, bool is_with_context);

  Contexts& contexts_;
  PlainMemory& plain_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Module>> modules_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Function>> functions_;
  std::unordered_set<std::uint64_t> of_dropped_contexts_;  // handles whose late use is no violation
  std::uint64_t next_module_ = 1;
  std::uint64_t next_function_ = 1;
};

inline CUmodule as_handle(const Module& module) { return reinterpret_cast<CUmodule>(module.handle); }
inline CUfunction as_handle(const Function& function) { return reinterpret_cast<CUfunction>(function.handle); }

}  // namespace memlake::emulator
