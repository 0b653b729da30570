#pragma once

// Contexts: which device a thread works on, and whether that device's work has failed for good.

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "device.hpp"
#include "driver/cuda_abi.hpp"
#include "refusal.hpp"

namespace memlake::emulator {

struct Context {
  std::uint64_t handle;
  Device* device;
  bool is_primary;
  unsigned flags = 0;
  CUresult sticky = CUDA_SUCCESS;  ///< set by failing work; every later call on the context answers it
  bool is_ending = false;          ///< the program has it no more; its work is being finished
  std::set<std::uint64_t> peers;   ///< contexts whose plain allocations this one may reach (cuCtxEnablePeerAccess)
};

class Contexts {
 public:
  Context& create(Device& device, bool is_primary, unsigned flags);

  /// Forgets a context; what lives in it is gone already.
  void erase(Context& context);

  /// One that the program may use; null if there is none (any more).
  Context* find(CUcontext handle);

  /// The same for the driver's own use: also one that is ending.
  Context* find(std::uint64_t handle);

  /// Throws what every call on a context must answer: 709 if it was destroyed, its sticky error if it has one.
  void check_alive(std::uint64_t handle);

  /// The context that is current to the calling thread. Throws 201 without one, and as check_alive().
  Context& current();

  /// The same, null instead of any refusal.
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
