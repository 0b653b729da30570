// memlake_torch_*: the functions that PyTorch's pluggable allocator calls.

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iterator>
#include <string>

#include "abi/last_error.hpp"
#include "abi/pool_handle.hpp"
#include "abi/torch_exception.hpp"
#include "abi/torch_pools.hpp"
#include "base/process.hpp"
#include "driver/library.hpp"

namespace memlake::abi {
namespace {

/// Remembers what is being handled and, once per function and code, writes it to stderr: PyTorch asks nobody. A forked
/// child and a process that ends are no place for it: there whatever is dropped is gone anyway.
[[gnu::cold]] void tell(const char* function, std::atomic<unsigned>& told) noexcept {
  const int code = remember_current();
  if (code == MEMLAKE_ERROR_DRIVER_GONE || is_exiting()) return;
  const unsigned bit = 1U << static_cast<unsigned>(-code);
  if ((told.fetch_or(bit) & bit) != 0) return;
  std::fprintf(stderr, "memlake: %s: %s (further failures of this kind are only in memlake_last_error())\n", function,
               memlake_last_error());
}

/// For functions that answer nothing.
template <class Work>
void told_from(const char* function, std::atomic<unsigned>& told, Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    tell(function, told);
  }
}

/// Any pool's, because PyTorch does not say which device it is about.
LivePool& pool_with(void* pointer) {
  if (LivePool* pool = TorchPools::of_this_process().find(address_of(pointer))) return *pool;
  throw Error(ErrorKind::invalid_argument, "the pointer was not allocated here, or was freed already");
}

/// The pool of the device, which counts by size: its statistics are PyTorch's, from the first request on.
LivePool& counting_pool(int device) {
  static std::atomic<LivePool*> counting[TorchPools::kMostDevices];
  LivePool& pool = TorchPools::of_this_process().pool(device);
  std::atomic<LivePool*>& known = counting[static_cast<std::size_t>(device)];
  if (known.load(std::memory_order_relaxed) != &pool) [[unlikely]] {
    pool.figures().count_by_size();
    known.store(&pool, std::memory_order_relaxed);
  }
  return pool;
}

/// As PyTorch writes sizes: 1 GiB is "1024.00 MiB".
std::string torch_text(Bytes size) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB"};
  if (size.count <= 1024) return std::to_string(size.count) + " bytes";
  double value = static_cast<double>(size.count) / 1024;
  std::size_t unit = 0;
  for (; value > 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %s", value, units[unit]);
  return text;
}

/// What PyTorch's own allocator says of a full device. Programs look for these words.
std::string out_of_memory_text(Bytes size, int device) {
  LivePool& pool = TorchPools::of_this_process().pool(device);
  Device& memory = *pool.devices().front();
  const PoolStats stats = pool.figures().stats().pool;
  return "CUDA out of memory. Tried to allocate " + torch_text(size) + ". GPU " + std::to_string(device) +
         " has a total capacity of " + torch_text(memory.total_memory()) + " of which " +
         torch_text(memory.free_memory()) + " is free. Of the allocated memory " + torch_text(stats.allocated.now) +
         " is allocated by PyTorch, and " + torch_text(stats.held.now.excess_over(stats.allocated.now)) +
         " is reserved by PyTorch but unallocated.";
}

[[gnu::cold]] void free_elsewhere(Address address, int device, CUstream stream) {
  TorchPools::of_this_process().owner_of(address, device).by_address().free(address, stream);
}

/// Calls `take(block, device)` if the memory is found. 1: found; 0: not memlake's; negative: an error. `wants_block`:
/// whether `take` needs the block.
template <class Take>
int find_torch_block(const void* ptr, int hint, bool wants_block, Take&& take) noexcept {
  if (ptr == nullptr) return 0;
  TorchPools& pools = TorchPools::of_this_process();
  bool is_found = false;
  const int code = code_from([&] {
    pools.require_this_process();
    FoundBlock found;
    is_found = pools.any_of(hint, [&](const LivePool& pool, int device) {
      if (!pool.by_address().find(address_of(ptr), wants_block ? &found : nullptr)) return false;
      take(found, device);
      return true;
    });
  });
  return code != MEMLAKE_OK ? code : is_found ? 1 : 0;
}

}  // namespace
}  // namespace memlake::abi

using namespace memlake;
using namespace memlake::abi;

extern "C" {

void* memlake_torch_malloc(ssize_t size, int device, void* stream) {
  try {
    if (size < 0) [[unlikely]]
      throw Error(ErrorKind::invalid_argument, "a size must not be negative, got " + std::to_string(size));
    if (size == 0) [[unlikely]]
      return nullptr;
    return allocate(TorchPools::of_this_process().pool(device), static_cast<std::uint64_t>(size), stream);
  } catch (...) {
    static std::atomic<unsigned> told{0};
    tell("memlake_torch_malloc", told);
    return nullptr;
  }
}

void* memlake_torch_malloc_or_throw(ssize_t size, int device, void* stream) {
  try {
    if (size < 0) throw Error(ErrorKind::invalid_argument, "a size must not be negative, got " + std::to_string(size));
    if (size == 0) return nullptr;
    return allocate(counting_pool(device), static_cast<std::uint64_t>(size), stream);
  } catch (...) {
    remember_current();
  }
  const std::string reason = memlake_last_error();
  if (memlake_last_error_code() != MEMLAKE_ERROR_OUT_OF_MEMORY) throw_torch_error("memlake: " + reason);
  std::string text = "CUDA out of memory.";
  try {
    text = out_of_memory_text({static_cast<std::uint64_t>(size)}, device);
  } catch (...) {
    remember_current();  // the device does not answer; the reason has the size
  }
  throw_torch_out_of_memory(text + " memlake: " + reason);
}

int memlake_torch_can_throw(void) { return has_torch_exceptions() ? 1 : 0; }

void memlake_torch_free(void* ptr, ssize_t /*size*/, int device, void* stream) {
  if (ptr == nullptr) return;
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_free", told, [&] {
    LivePool& pool = TorchPools::of_this_process().pool(device);
    if (!pool.by_address().try_free(address_of(ptr), static_cast<CUstream>(stream))) [[unlikely]]
      free_elsewhere(address_of(ptr), device, static_cast<CUstream>(stream));
  });
}

int memlake_torch_set_pool(int device, memlake_pool* pool) {
  return code_from(
      [&] { TorchPools::of_this_process().set(device, pool == nullptr ? nullptr : pool_of(pool).shared_from_this()); });
}

void memlake_torch_init(int ndevices) {
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_init", told, [&] {
    if (ndevices < 0 || ndevices > TorchPools::kMostDevices)
      throw Error(ErrorKind::invalid_argument, std::to_string(ndevices) + " devices cannot be served, only 0 to " +
                                                   std::to_string(TorchPools::kMostDevices));
    TorchPools::conf_of_environment();
  });
}

void memlake_torch_empty_cache(void) {
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_empty_cache", told, [&] {
    std::exception_ptr first;
    for (LivePool* pool : TorchPools::of_this_process().all()) {
      if (!pool->is_open()) continue;  // its owner has closed it
      try {
        pool->release_cached();
      } catch (...) {
        if (first == nullptr) first = std::current_exception();  // the others are emptied all the same
      }
    }
    if (first != nullptr) std::rethrow_exception(first);
  });
}

void memlake_torch_record_stream(void* ptr, void* stream) {
  if (ptr == nullptr) return;
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_record_stream", told,
            [&] { pool_with(ptr).by_address().record_use(address_of(ptr), static_cast<CUstream>(stream)); });
}

void* memlake_torch_base(void* ptr, size_t* size) {
  if (size != nullptr) *size = 0;
  if (ptr == nullptr) return nullptr;
  AddressRange segment{};
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_base", told, [&] { segment = pool_with(ptr).by_address().segment_of(address_of(ptr)); });
  if (size != nullptr) *size = segment.size.count;
  return reinterpret_cast<void*>(segment.begin.value);
}

void memlake_torch_fraction(double fraction, int device) {
  static std::atomic<unsigned> told{0};
  told_from("memlake_torch_fraction", told, [&] {
    if (!(fraction >= 0 && fraction <= 1))
      throw Error(ErrorKind::invalid_argument, "a fraction must be from 0 to 1, got " + std::to_string(fraction));
    TorchPools& pools = TorchPools::of_this_process();
    LivePool& pool = pools.pool(device);
    Bytes allowed = pools.memory_fraction_of(device);
    // As in PyTorch, 1 is no limit: what the driver counts as total can be a little less than what it gives.
    if (fraction < 1) {
      const auto total = static_cast<double>(pool.devices().front()->total_memory().count);
      allowed = std::min(allowed, Bytes{static_cast<std::uint64_t>(fraction * total)});
    }
    pool.settings().set_memory_fraction(allowed);
  });
}

memlake_pool* memlake_torch_pool(int device, const char* conf) {
  memlake_pool* found = nullptr;
  code_from([&] { found = TorchPools::of_this_process().handle(device, conf); });
  return found;
}

int memlake_torch_find(const void* ptr, int hint, memlake_block_t* block) {
  return find_torch_block(ptr, hint, block != nullptr, [&](const FoundBlock& found, int device) {
    if (block != nullptr) *block = to_c(found, device);
  });
}

int memlake_torch_find_in_graph(const void* ptr, int hint, memlake_block_t* block, uint64_t* first, uint64_t* second) {
  return find_torch_block(ptr, hint, true, [&](const FoundBlock& found, int device) {
    if (block != nullptr) *block = to_c(found, device);
    if (first != nullptr) *first = found.graph_pool.first;
    if (second != nullptr) *second = found.graph_pool.second;
  });
}

int memlake_torch_release(void* ptr, int hint, memlake_block_t* block) {
  if (ptr == nullptr) [[unlikely]]
    return 0;
  TorchPools& pools = TorchPools::of_this_process();
  if (pools.is_forked()) [[unlikely]]
    return 1;
  try {
    FoundBlock found;
    const bool is_found = pools.any_of(hint, [&](LivePool& pool, int device) {
      if (!pool.by_address().release(address_of(ptr), block == nullptr ? nullptr : &found)) return false;
      if (block != nullptr) *block = to_c(found, device);
      return true;
    });
    return is_found ? 1 : 0;
  } catch (...) {
    return remember_current();
  }
}
}
