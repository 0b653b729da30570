#pragma once

// Contexts: the device that a thread works on, and the sticky error after its work failed.

#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "basics/refusal.hpp"
#include "devices/coredump.hpp"
#include "devices/device.hpp"
#include "devices/sm_resource.hpp"
#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

/// Scheduling, mapping, coredump and sync bits.
inline constexpr unsigned kContextFlags = 0xFF;
inline constexpr unsigned kContextCoredump = 0x20;  ///< CU_CTX_COREDUMP_ENABLE

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
  CoredumpSettings coredump = {};
  std::set<std::uint64_t> peers;  ///< contexts whose plain allocations this one may access (cuCtxEnablePeerAccess)
};

/// A set of a device's multiprocessors with streams of its own (cuGreenCtxCreate). A program makes it current by its
/// view, a CUcontext of its own (cuCtxFromGreenCtx). All else than streams that is made then belongs to the primary
/// context.
struct GreenContext {
  std::uint64_t handle;
  std::uint64_t view;
  std::uint64_t primary;
  Device* device;
  SmResource resource;
  bool is_ending = false;  ///< as Context::is_ending
};

/// The refusal of a call on a context that failed work has lost. The program learns by it that nothing of the context
/// runs any more.
struct ContextLost : Refusal {
  std::uint64_t context;
};

class Contexts {
 public:
  /// The settings of the process; a context begins with a copy of them.
  CoredumpSettings coredump;

  Context& create(Device& device, bool is_primary, unsigned flags);

  /// Removes a context. pre: its streams, events and allocations are already removed.
  void erase(Context& context);

  /// Finds a context for the program; for the view of a green context it is the primary context. Null if it does not
  /// exist or is ending.
  Context* find(CUcontext handle);

  /// Finds a context for the driver itself, also one that is ending.
  Context* find(std::uint64_t handle);

  /// Makes a green context. pre: the device has a primary context, which the green one keeps retained.
  GreenContext& create_green(Device& device, const SmResource& resource);
  void erase_green(const GreenContext& green);
  /// A description of a green context's resource. CUDA has no function that destroys one.
  CUdevResourceDesc describe(const SmResource& resource);
  [[nodiscard]] const SmResource& described(CUdevResourceDesc handle) const;
  /// A number for a split of a resource; groups of one split may become one green context.
  std::uint64_t next_split() { return next_split_++; }
  /// Throws 201 for a handle that never existed, 709 if the green context or its primary context was destroyed.
  GreenContext& find_green(CUgreenCtx handle);
  /// The green context of a view; null if the handle is not that of a view.
  GreenContext* green_of(std::uint64_t view);
  /// The view that is current to the calling thread; 0: none, or a whole context is current.
  std::uint64_t current_view();
  [[nodiscard]] const std::unordered_map<std::uint64_t, GreenContext>& all_green() const { return green_; }

  /// Throws the error that every call on the context must return: 709 if it was destroyed, or its sticky error.
  void check_alive(std::uint64_t handle);

  /// The context that is current to the calling thread: the primary one if a green context is. Throws 201 without one,
  /// and as check_alive().
  Context& current();

  /// The current context; null where current() throws.
  Context* current_or_null();

  /// The calling thread's stack of current contexts (handles; 0 = none).
  static std::vector<std::uint64_t>& stack();

  [[nodiscard]] const std::unordered_map<std::uint64_t, Context>& all() const { return all_; }

 private:
  /// The context that a handle of the program stands for.
  std::uint64_t whole(std::uint64_t handle);

  std::unordered_map<std::uint64_t, Context> all_;         // references to values stay valid
  std::unordered_map<std::uint64_t, GreenContext> green_;  // by view
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, SmResource> described_;
  std::uint64_t next_green_ = 1;
  std::uint64_t next_split_ = 1;
};

inline CUgreenCtx as_handle(const GreenContext& green) { return reinterpret_cast<CUgreenCtx>(green.handle); }
inline CUcontext as_handle(const Context& context) { return reinterpret_cast<CUcontext>(context.handle); }

}  // namespace memlake::emulator
