#pragma once

// Launches of kernels. The emulator has no processor for them: it checks a launch like a driver, and either refuses it
// (kernels=refuse) or queues work that does nothing (kernels=skip).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "basics/ledger.hpp"
#include "code/module.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

// The marks in the list of `extra`: a mark, then its value.
inline constexpr std::uintptr_t kExtraEnd = 0;
inline constexpr std::uintptr_t kExtraBuffer = 1;
inline constexpr std::uintptr_t kExtraSize = 2;

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;  ///< dynamic shared memory in bytes
  bool is_cooperative = false;
};

/// Throws 801 if the device refuses launches, and names the setting that skips them.
void check_kernels_are_skipped(const Function& function);

/// Throws 1, 701 or 720 as a driver does for a shape that the kernel or the device does not allow.
void check_shape(const Function& function, const LaunchShape& shape);

/// The bytes of the parameters, from cuLaunchKernel's two ways to pass them. Throws 1 if both or none are used, or if
/// the buffer is too small.
[[nodiscard]] std::vector<char> read_parameters(const KernelImage& kernel, void** parameters, void** extra);

/// The work of a launch that is skipped. It declares no memory.
[[nodiscard]] Work skipped_work(const Function& function, const Origin& origin);

/// Counts skipped launches by kernel.
class SkippedLaunches {
 public:
  /// Counts one launch. The first launch of the process leaves a warning in the ledger and on stderr.
  void count(Ledger& ledger, Function& function, const Origin& origin);

  void reset() {
    for (auto& [name, count] : counts_) count = 0;  // functions refer to the entries
  }

  /// By the name of the kernel.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, std::uint64_t> counts_;
  bool has_warned_ = false;
};

}  // namespace memlake::emulator
