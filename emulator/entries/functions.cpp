// Functions: the kernels of modules, their attributes and their occupancy.

#include <algorithm>
#include <vector>

#include "entries/entry.hpp"
#include "entries/images.hpp"

namespace memlake::emulator {

namespace {

constexpr unsigned kOccupancyFlags = 1;  // CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
constexpr std::uint64_t kWarp = 32;
constexpr std::uint64_t kSharedStep = 128;

Function& find_own(Session& session, CUfunction function) {
  return session.driver.modules.find_function(reinterpret_cast<std::uint64_t>(function));
}

/// Also accepts a CUkernel, for which the current context decides.
Function& find(Session& session, CUfunction function) {
  Driver& driver = session.driver;
  if (!driver.libraries.is_kernel(function)) return find_own(session, function);
  return driver.libraries.function_of(function, driver.contexts.current(), session.origin);
}

int active_blocks(Session& session, CUfunction function, int threads, size_t shared, unsigned flags) {
  if ((flags & ~kOccupancyFlags) != 0) invalid("flags ", flags, " are unknown");
  const Function& found = find(session, function);
  if (threads <= 0) invalid("a block of ", threads, " threads is not possible");
  return static_cast<int>(blocks_per_multiprocessor(found, static_cast<std::uint64_t>(threads), shared));
}

/// The block sizes to try, the largest first: whole warps, and the limit itself.
std::vector<std::uint64_t> sizes_up_to(std::uint64_t most) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t threads = (most + kWarp - 1) / kWarp * kWarp; threads > 0; threads -= kWarp)
    sizes.push_back(std::min(threads, most));
  return sizes;
}

void potential_block(Session& session, int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                     size_t shared, int most_threads, unsigned flags) {
  required(grid, "the grid size");
  required(block, "the block size");
  if ((flags & ~kOccupancyFlags) != 0) invalid("flags ", flags, " are unknown");
  if (most_threads < 0) invalid("a limit of ", most_threads, " threads is not possible");
  auto most = static_cast<std::uint64_t>(attribute_of(find(session, function), kMaxThreadsAttribute));
  if (most_threads > 0) most = std::min(most, static_cast<std::uint64_t>(most_threads));
  const std::vector<std::uint64_t> sizes = sizes_up_to(most);
  std::vector<std::uint64_t> shared_sizes(sizes.size(), shared);
  if (shared_of != nullptr) {  // code of the program: it may call the driver, or wait for a thread that does
    session.lock.unlock();
    for (std::size_t i = 0; i < sizes.size(); ++i) shared_sizes[i] = shared_of(static_cast<int>(sizes[i]));
    session.lock.lock();
  }
  const Function& found = find(session, function);
  std::uint64_t best_threads = 0;
  std::uint64_t best_blocks = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {  // the larger of two equally good sizes wins
    const std::uint64_t blocks = blocks_per_multiprocessor(found, sizes[i], shared_sizes[i]);
    if (blocks * sizes[i] <= best_blocks * best_threads) continue;
    best_threads = sizes[i];
    best_blocks = blocks;
  }
  *grid = static_cast<int>(best_blocks * limit(*found.module->device, Limit::multiprocessors));
  *block = static_cast<int>(best_threads);
}

}  // namespace

void check_cache_config(int config) {
  if (config < 0 || config > 3) invalid("cache configuration ", config, " is unknown");
}

void tell_parameter(const KernelImage& kernel, size_t index, size_t* offset, size_t* size) {
  required(offset, "the offset");
  if (index >= kernel.parameters.size())
    invalid("kernel ", kernel.name, " has ", kernel.parameters.size(), " parameters, so none has index ", index);
  *offset = kernel.parameters[index].offset;
  if (size != nullptr) *size = kernel.parameters[index].size;
}

MEMLAKE_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return enter(Call::cuFuncGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    int& out = required(value, "value");
    out = attribute_of(find(session, function), attribute);
  });
}

MEMLAKE_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return enter(Call::cuFuncSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    Function& found = find(session, function);
    set_kernel_attribute(*found.image, *found.module->device, found.settings, attribute, value);
  });
}

MEMLAKE_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  return enter(Call::cuFuncSetCacheConfig, MEMLAKE_CALLER, [&](Session& session) {
    find(session, function);
    check_cache_config(config);
  });
}

MEMLAKE_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  return enter(Call::cuFuncSetSharedMemConfig, MEMLAKE_CALLER, [&](Session& session) {
    find(session, function);
    if (config < 0 || config > 2) invalid("shared memory configuration ", config, " is unknown");
  });
}

MEMLAKE_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  return enter(Call::cuFuncGetModule, MEMLAKE_CALLER, [&](Session& session) {
    CUmodule& out = required(module, "module");
    out = as_handle(*find(session, function).module);
  });
}

MEMLAKE_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  return enter(Call::cuFuncGetName, MEMLAKE_CALLER, [&](Session& session) {
    const char*& out = required(name, "name");
    if (function == nullptr) invalid("the function is NULL");
    out = find(session, function).image->name.c_str();
  });
}

MEMLAKE_EXPORT CUresult cuFuncGetParamCount(CUfunction function, size_t* count) {
  return enter(Call::cuFuncGetParamCount, MEMLAKE_CALLER, [&](Session& session) {
    required(count, "count");
    *count = find(session, function).image->parameters.size();
  });
}

MEMLAKE_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return enter(Call::cuFuncGetParamInfo, MEMLAKE_CALLER,
               [&](Session& session) { tell_parameter(*find(session, function).image, index, offset, size); });
}

MEMLAKE_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return enter(Call::cuFuncIsLoaded, MEMLAKE_CALLER, [&](Session& session) {
    CUfunctionLoadingState& out = required(state, "state");
    out = find_own(session, function).is_loaded ? 1 : 0;
  });
}

MEMLAKE_EXPORT CUresult cuFuncLoad(CUfunction function) {
  return enter(Call::cuFuncLoad, MEMLAKE_CALLER,
               [&](Session& session) { find_own(session, function).is_loaded = true; });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                                    size_t shared) {
  return enter(Call::cuOccupancyMaxActiveBlocksPerMultiprocessor, MEMLAKE_CALLER, [&](Session& session) {
    int& out = required(blocks, "the number of blocks");
    out = active_blocks(session, function, threads, shared, 0);
  });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                             int threads, size_t shared,
                                                                             unsigned flags) {
  return enter(Call::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, MEMLAKE_CALLER, [&](Session& session) {
    int& out = required(blocks, "the number of blocks");
    out = active_blocks(session, function, threads, shared, flags);
  });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                         CUoccupancyB2DSize shared_of, size_t shared, int most) {
  return enter(Call::cuOccupancyMaxPotentialBlockSize, MEMLAKE_CALLER,
               [&](Session& session) { potential_block(session, grid, block, function, shared_of, shared, most, 0); });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                                  CUoccupancyB2DSize shared_of, size_t shared, int most,
                                                                  unsigned flags) {
  return enter(Call::cuOccupancyMaxPotentialBlockSizeWithFlags, MEMLAKE_CALLER, [&](Session& session) {
    potential_block(session, grid, block, function, shared_of, shared, most, flags);
  });
}

MEMLAKE_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* shared, CUfunction function, int blocks,
                                                                int threads) {
  return enter(Call::cuOccupancyAvailableDynamicSMemPerBlock, MEMLAKE_CALLER, [&](Session& session) {
    size_t& out = required(shared, "the size of shared memory");
    const Function& found = find(session, function);
    if (blocks <= 0 || threads <= 0) invalid(blocks, " blocks of ", threads, " threads are not possible");
    const Device& device = *found.module->device;
    // The largest size for which so many blocks still run at a time.
    const std::uint64_t each = limit(device, Limit::shared_per_multiprocessor) / static_cast<std::uint64_t>(blocks);
    const std::uint64_t taken = found.image->shared + limit(device, Limit::reserved_shared_per_block);
    const std::uint64_t room = each > taken ? (each - taken) / kSharedStep * kSharedStep : 0;
    out = std::min(room, static_cast<std::uint64_t>(attribute_of(found, kMaxDynamicSharedAttribute)));
  });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                                           const CUlaunchConfig* config) {
  return enter(Call::cuOccupancyMaxPotentialClusterSize, MEMLAKE_CALLER, [&](Session& session) {
    required(size, "the cluster size");
    required(config, "config");
    find(session, function);
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the device has no clusters (CLUSTER_LAUNCH is 0)");
  });
}

MEMLAKE_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  return enter(Call::cuOccupancyMaxActiveClusters, MEMLAKE_CALLER, [&](Session& session) {
    required(clusters, "the number of clusters");
    required(config, "config");
    find(session, function);
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the device has no clusters (CLUSTER_LAUNCH is 0)");
  });
}

}  // namespace memlake::emulator
