// memlake_torch_functions(): pairs of C functions for torch.cuda.MemPool, each pair for one pool.
//
// PyTorch's pluggable allocator calls plain functions without an argument of ours, so each pool that is in use needs
// its own pair. They are made when memlake is compiled; a pool takes a place in their table.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "abi/last_error.hpp"
#include "abi/pool_handle.hpp"

namespace memlake::abi {
namespace {

constexpr std::size_t kPlaces = 64;

using Malloc = void* (*)(ssize_t, int, void*);
using Free = void (*)(void*, ssize_t, int, void*);

struct Place {
  std::shared_ptr<LivePool> pool;  // null: no pool has the place
  std::size_t live = 0;            // allocations that were not freed
  bool is_over = false;            // gives no memory any more
};

struct Places {
  std::mutex mutex;
  std::array<Place, kPlaces> places;
};

Places& table() {
  static Places& table = *new Places;  // never destroyed: PyTorch frees memory while the process ends
  return table;
}

void* allocate_in_region(std::size_t number, ssize_t size, void* stream) noexcept {
  try {
    if (size <= 0) return nullptr;
    std::shared_ptr<LivePool> pool;
    {
      const std::lock_guard lock(table().mutex);
      Place& place = table().places[number];
      if (place.pool == nullptr || place.is_over) throw Error(ErrorKind::closed, "the region of this pool has ended");
      pool = place.pool;
      ++place.live;
    }
    try {
      return allocate(*pool, static_cast<std::uint64_t>(size), stream);
    } catch (...) {
      const std::lock_guard lock(table().mutex);
      --table().places[number].live;
      throw;
    }
  } catch (...) {
    remember_current();
    return nullptr;
  }
}

void free_in(std::size_t number, void* pointer) noexcept {
  if (pointer == nullptr) return;
  code_from([&] {
    std::shared_ptr<LivePool> pool;  // dropped after the lock
    {
      const std::lock_guard lock(table().mutex);
      pool = table().places[number].pool;
    }
    if (pool == nullptr) throw Error(ErrorKind::closed, "the region of this pool has ended");
    pool->by_address().free(address_of(pointer));
    const std::lock_guard lock(table().mutex);
    Place& place = table().places[number];
    if (--place.live == 0 && place.is_over) place = {};
  });
}

template <std::size_t kNumber>
void* malloc_of(ssize_t size, int /*device*/, void* stream) {
  return allocate_in_region(kNumber, size, stream);
}

template <std::size_t kNumber>
void free_of(void* pointer, ssize_t /*size*/, int /*device*/, void* /*stream*/) {
  free_in(kNumber, pointer);
}

struct Pair {
  Malloc allocate;
  Free free;
};

template <std::size_t... kNumbers>
constexpr std::array<Pair, sizeof...(kNumbers)> make_pairs(std::index_sequence<kNumbers...> /*numbers*/) {
  return {Pair{&malloc_of<kNumbers>, &free_of<kNumbers>}...};
}

constexpr std::array<Pair, kPlaces> kPairs = make_pairs(std::make_index_sequence<kPlaces>());

std::size_t take_place(std::shared_ptr<LivePool> pool) {
  const std::lock_guard lock(table().mutex);
  for (std::size_t number = 0; number < kPlaces; ++number)
    if (Place& place = table().places[number]; place.pool == nullptr) {
      place.pool = std::move(pool);
      return number;
    }
  throw Error(ErrorKind::config, "64 pools are in use for regions of PyTorch already; end one first");
}

void end_place(const void* function) {
  std::shared_ptr<LivePool> dropped;
  const std::lock_guard lock(table().mutex);
  for (std::size_t number = 0; number < kPlaces; ++number) {
    if (reinterpret_cast<const void*>(kPairs[number].allocate) != function) continue;
    Place& place = table().places[number];
    if (place.pool == nullptr) break;
    place.is_over = true;
    if (place.live == 0) dropped = std::exchange(place, {}).pool;
    return;
  }
  throw Error(ErrorKind::invalid_argument, "this is no function of a region");
}

}  // namespace
}  // namespace memlake::abi

using namespace memlake;
using namespace memlake::abi;

extern "C" {

int memlake_torch_functions(memlake_pool* pool, void** malloc_function, void** free_function) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (malloc_function == nullptr || free_function == nullptr)
      throw Error(ErrorKind::invalid_argument, "both places for the functions are needed");
    const std::size_t number = take_place(live.shared_from_this());
    *malloc_function = reinterpret_cast<void*>(kPairs[number].allocate);
    *free_function = reinterpret_cast<void*>(kPairs[number].free);
  });
}

int memlake_torch_end_functions(void* malloc_function) {
  return code_from([&] { end_place(malloc_function); });
}
}
