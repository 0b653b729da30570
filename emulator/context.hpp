#pragma once

// Contexts: the device that a thread works on, and the sticky error after its work failed.

#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "device.hpp"
#include "driver/cuda_abi.hpp"
#include "refusal.hpp"

namespace memlake::emulator {

/// Scheduling, mapping, coredump and sync bits.
inline constexpr unsigned kContextFlags = 0xFF;

struct Context {
  static constexpr int kDefaultSharedConfig = 1;  ///< four bytes per bank

  std::uint64_t handle;
  Device* device;
  bool is_primary;
  unsigned flags = 0;
  CUresult sticky = CUDA_SUCCESS;  ///< set by failed work; every later call on the context returns it
  bool is_ending = false;          ///< the program can no longer use it; its work is being finished
  unsigned attachments = 1;        ///< cuCtxCreate and each cuCtxAttach; cuCtxDetach takes one away
  /// cuCtxGetLimit: stack, printf buffer, heap, depth and number of launches by kernels, L2 fetches, persisting L2.
  std::array<std::size_t, 7> limits = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
  int cache_config = 0;
  int shared_config = kDefaultSharedConfig;
  std::set<std::uint64_t> peers;  ///< contexts whose plain allocations this one may access (cuCtxEnablePeerAccess)
};

/// The refusal of a call on a context that failed work has lost. The program learns by it that nothing of the context
/// runs any more.
struct ContextLost : Refusal {
  std::uint64_t context;
};

class Contexts {
 public:
  Context& create(Device& device, bool is_primary, unsigned flags);

  /// Removes a context. pre: its streams, events and allocations are already removed.
  void erase(Context& context);

  /// Finds a context for the program. Null if it does not exist or is ending.
  Context* find(CUcontext handle);

  /// Finds a context for the driver itself, also one that is ending.
  Context* find(std::uint64_t handle);

  /// Throws the error that every call on the context must return: 709 if it was destroyed, or its sticky error.
  void check_alive(std::uint64_t handle);

  /// The context that is current to the calling thread. Throws 201 without one, and as check_alive().
  Context& current();

  /// The same, but null where current() throws.
  Context* current_or_null();

  /// The calling thread's stack of current contexts (handles; 0 = none).
  static std::vector<std::uint64_t>& stack();

  [[nodiscard]] const std::unordered_map<std::uint64_t, Context>& all() const { return all_; }

 private:
  std::unordered_map<std::uint64_t, Context> all_;  // references to values stay valid
  std::uint64_t next_ = 1;
};

inline CUcontext as_handle(const Context& context) { return reinterpret_cast<CUcontext>(context.handle); }

}  // namespace memlake::emulator
