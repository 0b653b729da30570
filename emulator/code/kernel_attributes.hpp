#pragma once

// The attributes of kernels (CUfunction_attribute), and the resources of a kernel on a device.

#include "code/module.hpp"

namespace memlake::emulator {

// CUfunction_attribute.
inline constexpr int kMaxThreadsAttribute = 0;
inline constexpr int kMaxDynamicSharedAttribute = 8;

// Attributes of devices that limit kernels.
enum class Limit : int {
  threads_per_block = 1,
  block_x = 2,
  block_y = 3,
  block_z = 4,
  grid_x = 5,
  grid_y = 6,
  grid_z = 7,
  shared_per_block = 8,
  registers_per_block = 12,
  multiprocessors = 16,
  threads_per_multiprocessor = 39,
  shared_per_multiprocessor = 81,
  registers_per_multiprocessor = 82,
  cooperative_launch = 95,
  shared_per_block_optin = 97,
  blocks_per_multiprocessor = 106,
  reserved_shared_per_block = 111,
};

[[nodiscard]] std::uint64_t limit(const Device& device, Limit which);

/// The architecture of a device, for instance 80.
[[nodiscard]] int architecture_of(const Device& device);

/// The value of an attribute on a device. `own` and `of_kernel` (or null) are the settings; the former win. Throws 1
/// for an attribute that does not exist.
[[nodiscard]] int kernel_attribute(const KernelImage& kernel, const Image& image, const Device& device,
                                   const KernelSettings& own, const KernelSettings* of_kernel, int attribute);
[[nodiscard]] int attribute_of(const Function& function, int attribute);

/// Sets an attribute. Throws 1 for an attribute that cannot be set or a value that is not possible.
void set_kernel_attribute(const KernelImage& kernel, const Device& device, KernelSettings& settings, int attribute,
                          int value);

/// How many blocks of a kernel run on one multiprocessor at a time. It is NVIDIA's documented calculation, and a model:
/// the emulated device has the limits of an Ampere GPU, and PTX has no number of registers.
[[nodiscard]] std::uint64_t blocks_per_multiprocessor(const Function& function, std::uint64_t threads,
                                                      std::uint64_t dynamic_shared);

}  // namespace memlake::emulator
