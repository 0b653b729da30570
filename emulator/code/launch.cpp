#include "code/launch.hpp"

#include <array>
#include <cstring>

#include "basics/refusal.hpp"
#include "code/kernel_attributes.hpp"

namespace memlake::emulator {

namespace {

constexpr int kMostExtraEntries = 16;

constexpr std::array<Limit, 3> kGridLimits{Limit::grid_x, Limit::grid_y, Limit::grid_z};
constexpr std::array<Limit, 3> kBlockLimits{Limit::block_x, Limit::block_y, Limit::block_z};
constexpr std::array<const char*, 3> kAxes{"x", "y", "z"};

void check_extent(const Device& device, const char* what, const unsigned (&extent)[3],
                  const std::array<Limit, 3>& limits) {
  for (std::size_t i = 0; i < 3; ++i)
    if (extent[i] == 0 || extent[i] > limit(device, limits[i]))
      invalid("the ", what, " has ", extent[i], " in ", kAxes[i], "; the device allows 1 to ",
              limit(device, limits[i]));
}

std::vector<char> from_extra(const KernelImage& kernel, void** extra) {
  const void* buffer = nullptr;
  std::uint64_t size = 0;
  for (int i = 0; reinterpret_cast<std::uintptr_t>(extra[i]) != kExtraEnd; i += 2) {
    const auto mark = reinterpret_cast<std::uintptr_t>(extra[i]);
    if (i >= kMostExtraEntries) invalid("the list of extra options has no end");
    if (mark == kExtraBuffer) {
      buffer = extra[i + 1];
    } else if (mark == kExtraSize) {
      size = required(static_cast<const std::size_t*>(extra[i + 1]), "the size of the parameter buffer");
    } else {
      invalid("extra option ", mark, " is unknown");
    }
  }
  if (size < kernel.parameter_bytes())
    invalid("the parameter buffer has ", size, " bytes, and kernel ", kernel.name, " takes ", kernel.parameter_bytes());
  if (kernel.parameters.empty()) return {};
  const auto* bytes = &required(static_cast<const char*>(buffer), "the parameter buffer");
  return {bytes, bytes + kernel.parameter_bytes()};
}

}  // namespace

void check_kernels_are_skipped(const Function& function) {
  const Device& device = *function.module->device;
  if (device.config.kernels == Kernels::refuse)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator runs no kernels, so it refuses to launch ", function.image->name,
           "; with the setting kernels=skip a launch is checked and queued, but computes nothing");
}

void check_shape(const Function& function, const LaunchShape& shape) {
  const Device& device = *function.module->device;
  const KernelImage& kernel = *function.image;
  check_extent(device, "grid", shape.grid, kGridLimits);
  check_extent(device, "block", shape.block, kBlockLimits);
  const std::uint64_t threads = std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (threads > limit(device, Limit::threads_per_block))
    invalid("the block has ", threads, " threads; the device allows ", limit(device, Limit::threads_per_block));
  if (threads > static_cast<std::uint64_t>(attribute_of(function, kMaxThreadsAttribute)))
    refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the block has ", threads, " threads; kernel ", kernel.name, " allows ",
           attribute_of(function, kMaxThreadsAttribute), " (", kernel.registers,
           " registers per thread, launch bounds ", kernel.max_threads, ")");
  const auto most_shared = static_cast<std::uint64_t>(attribute_of(function, kMaxDynamicSharedAttribute));
  if (shape.shared > most_shared)
    invalid("the launch asks for ", shape.shared, " bytes of dynamic shared memory; kernel ", kernel.name, " may have ",
            most_shared, " (cuFuncSetAttribute can raise it)");
  if (kernel.cluster[0] != 0)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "kernel ", kernel.name, " needs clusters, which the device does not have");
  if (!shape.is_cooperative) return;
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const std::uint64_t most =
      blocks_per_multiprocessor(function, threads, shape.shared) * limit(device, Limit::multiprocessors);
  if (blocks > most)
    refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the cooperative launch has ", blocks,
           " blocks, of which the device runs ", most, " at a time");
}

std::vector<char> read_parameters(const KernelImage& kernel, void** parameters, void** extra) {
  if (extra != nullptr && parameters != nullptr) invalid("parameters are passed in kernelParams and in extra; use one");
  if (extra != nullptr) return from_extra(kernel, extra);
  std::vector<char> bytes(kernel.parameter_bytes());
  if (kernel.parameters.empty()) return bytes;
  if (parameters == nullptr)
    invalid("kernel ", kernel.name, " takes ", kernel.parameters.size(), " parameters, and none are passed");
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (parameters[i] == nullptr) invalid("parameter ", i, " of kernel ", kernel.name, " is NULL");
    std::memcpy(bytes.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].size);
  }
  return bytes;
}

Work skipped_work(const Function& function, const Origin& origin) {
  return Work{.name = text("kernel ", function.image->name), .origin = origin};
}

void SkippedLaunches::count(Ledger& ledger, Function& function, const Origin& origin) {
  const std::string& name = function.image->name;
  if (!has_warned_)
    ledger.note_warning(origin, text("kernel ", name,
                                     " is skipped (kernels=skip): the emulator runs no kernels, so the memory that "
                                     "this and all later kernels should write keeps its old content"));
  has_warned_ = true;
  function.is_loaded = true;
  if (function.launches == nullptr) function.launches = &counts_[name];
  ++*function.launches;
}

}  // namespace memlake::emulator
