#include "code/kernel_attributes.hpp"

#include <algorithm>

#include "basics/refusal.hpp"
#include "basics/rounding.hpp"

namespace memlake::emulator {

namespace {

// CUfunction_attribute.
constexpr int kShared = 1;
constexpr int kConst = 2;
constexpr int kLocal = 3;
constexpr int kRegisters = 4;
constexpr int kPtxVersion = 5;
constexpr int kBinaryVersion = 6;
constexpr int kCacheModeCa = 7;
constexpr int kCarveout = 9;
constexpr int kClusterMustBeSet = 10;
constexpr int kClusterWidth = 11;
constexpr int kClusterDepth = 13;
constexpr int kNonPortableCluster = 14;
constexpr int kClusterPolicy = 15;

constexpr std::uint64_t kWarp = 32;
constexpr std::uint64_t kRegisterStep = 256;  // registers are given to warps in such steps
constexpr std::uint64_t kWarpStep = 4;        // and a multiprocessor has four parts
constexpr std::uint64_t kSharedStep = 128;

std::uint64_t registers_of_warp(const KernelImage& kernel) {
  return round_up(static_cast<std::uint64_t>(std::max(kernel.registers, 1)) * kWarp, kRegisterStep);
}

std::uint64_t max_threads(const KernelImage& kernel, const Device& device) {
  std::uint64_t threads = limit(device, Limit::threads_per_block);
  if (kernel.max_threads != 0) threads = std::min(threads, kernel.max_threads);
  const std::uint64_t warps = limit(device, Limit::registers_per_block) / registers_of_warp(kernel);
  return std::min(threads, warps / kWarpStep * kWarpStep * kWarp);
}

std::uint64_t default_dynamic_shared(const KernelImage& kernel, const Device& device) {
  const std::uint64_t all = limit(device, Limit::shared_per_block);
  return kernel.shared > all ? 0 : all - kernel.shared;
}

int fixed_attribute(const KernelImage& kernel, const Image& image, const Device& device, int attribute) {
  switch (attribute) {
    case kMaxThreadsAttribute:
      return static_cast<int>(max_threads(kernel, device));
    case kShared:
      return static_cast<int>(kernel.shared);
    case kConst:
      return static_cast<int>(kernel.constant);
    case kLocal:
      return static_cast<int>(kernel.local);
    case kRegisters:
      return kernel.registers;
    case kPtxVersion:
      return image.ptx_version;
    case kBinaryVersion:
      return image.binary_version;
    case kMaxDynamicSharedAttribute:
      return static_cast<int>(default_dynamic_shared(kernel, device));
    case kCarveout:
      return -1;  // no preference
    case kClusterMustBeSet:
      return 0;
    case kCacheModeCa:
    case kNonPortableCluster:
    case kClusterPolicy:
      return 0;
    default:  // the cluster's width, height and depth
      return static_cast<int>(kernel.cluster[attribute - kClusterWidth]);
  }
}

void check_known(int attribute) {
  if (attribute < 0 || attribute >= kFunctionAttributes) invalid("function attribute ", attribute, " is unknown");
}

}  // namespace

std::uint64_t limit(const Device& device, Limit which) {
  return static_cast<std::uint64_t>(device.attribute(static_cast<int>(which)).value_or(0));
}

int architecture_of(const Device& device) {
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  return device.attribute(kMajor).value_or(0) * 10 + device.attribute(kMinor).value_or(0);
}

int kernel_attribute(const KernelImage& kernel, const Image& image, const Device& device, const KernelSettings& own,
                     const KernelSettings* of_kernel, int attribute) {
  check_known(attribute);
  const auto index = static_cast<std::size_t>(attribute);
  if (own[index]) return *own[index];
  if (of_kernel != nullptr && (*of_kernel)[index]) return *(*of_kernel)[index];
  return fixed_attribute(kernel, image, device, attribute);
}

int attribute_of(const Function& function, int attribute) {
  return kernel_attribute(*function.image, *function.module->image, *function.module->device, function.settings,
                          function.of_kernel, attribute);
}

void set_kernel_attribute(const KernelImage& kernel, const Device& device, KernelSettings& settings, int attribute,
                          int value) {
  check_known(attribute);
  if (attribute < kMaxDynamicSharedAttribute) invalid("function attribute ", attribute, " can only be read");
  const std::uint64_t most_shared = limit(device, Limit::shared_per_block_optin);
  if (attribute == kMaxDynamicSharedAttribute &&
      (value < 0 || kernel.shared > most_shared || static_cast<std::uint64_t>(value) > most_shared - kernel.shared))
    invalid("dynamic shared memory of ", value, " bytes is not possible: kernel ", kernel.name, " has ", kernel.shared,
            " bytes of static shared memory, and a block of the device can have ", most_shared);
  if (attribute == kCarveout && (value < -1 || value > 100))
    invalid("a carveout of ", value, " is not -1 to 100 percent");
  if ((attribute == kClusterMustBeSet || attribute == kNonPortableCluster) && (value < 0 || value > 1))
    invalid("function attribute ", attribute, " is 0 or 1, not ", value);
  if (attribute >= kClusterWidth && attribute <= kClusterDepth) {
    if (kernel.cluster[0] != 0)
      refuse(CUDA_ERROR_NOT_PERMITTED, "the cluster size of kernel ", kernel.name, " was set when it was compiled");
    if (value < 0) invalid("a cluster size of ", value, " is not possible");
  }
  if (attribute == kClusterPolicy && (value < 0 || value > 2))
    invalid("cluster scheduling policy ", value, " is unknown");
  settings[static_cast<std::size_t>(attribute)] = value;
}

std::uint64_t blocks_per_multiprocessor(const Function& function, std::uint64_t threads, std::uint64_t dynamic_shared) {
  const Device& device = *function.module->device;
  const KernelImage& kernel = *function.image;
  if (threads == 0 || threads > max_threads(kernel, device)) return 0;
  const std::uint64_t shared = kernel.shared + dynamic_shared;
  if (shared > limit(device, Limit::shared_per_block_optin)) return 0;
  const std::uint64_t warps = (threads + kWarp - 1) / kWarp;
  const std::uint64_t by_threads = limit(device, Limit::threads_per_multiprocessor) / (warps * kWarp);
  const std::uint64_t warps_by_registers =
      limit(device, Limit::registers_per_multiprocessor) / registers_of_warp(kernel) / kWarpStep * kWarpStep;
  const std::uint64_t own_shared = round_up(shared + limit(device, Limit::reserved_shared_per_block), kSharedStep);
  return std::min({limit(device, Limit::blocks_per_multiprocessor), by_threads, warps_by_registers / warps,
                   limit(device, Limit::shared_per_multiprocessor) / own_shared});
}

}  // namespace memlake::emulator
