// memlake_pool_*: pools for any program.

#include <atomic>

#include "abi/fill.hpp"
#include "abi/last_error.hpp"
#include "abi/make_pool.hpp"
#include "abi/pool_handle.hpp"

namespace memlake::abi {

memlake_pool* keep(std::unique_ptr<memlake_pool> handle) noexcept {
  static std::atomic<memlake_pool*> latest{nullptr};
  handle->made_before = latest.load();
  while (!latest.compare_exchange_weak(handle->made_before, handle.get())) {
  }
  return handle.release();
}

BorrowedHandle::BorrowedHandle(LivePool& pool) : handle_(keep(std::make_unique<memlake_pool>())) {
  handle_->device = pool.devices().front()->ordinal();
  handle_->live.store(&pool);
}

void refuse_size(std::uint64_t size) {
  throw Error(ErrorKind::invalid_argument,
              "no memory has " + std::to_string(size) + " bytes; was a negative number meant?");
}

namespace {

memlake_pool_stats_t to_c(const PoolStats& pool, Bytes limit) {
  memlake_pool_stats_t result{};
  result.limit = limit.count;
#define LEVEL(name)                  \
  result.name = pool.name.now.count; \
  result.name##_peak = pool.name.peak.count;
#define COUNT(name) result.num_##name = pool.name;
#include "pool/statistics.inc"
#undef LEVEL
#undef COUNT
  return result;
}

void destroy(memlake_pool* handle) {
  LivePool& pool = pool_of(handle);
  if (handle->owned == nullptr)
    throw Error(ErrorKind::invalid_free, "the pool was not made by memlake_pool_create(); close it where it was made");
  pool.close();
  handle->live.store(nullptr);
  handle->owned.reset();
}

}  // namespace
}  // namespace memlake::abi

using namespace memlake;
using namespace memlake::abi;

extern "C" {

memlake_pool* memlake_pool_create(const char* conf, int device) {
  memlake_pool* made = nullptr;
  code_from([&] {
    auto handle = std::make_unique<memlake_pool>();
    handle->device = device;
    handle->owned = make_pool(parse_conf(conf == nullptr ? "" : conf), device);
    handle->live.store(handle->owned.get());
    made = keep(std::move(handle));
  });
  return made;
}

int memlake_pool_destroy(memlake_pool* pool) {
  return code_from([&] { destroy(pool); });
}

void* memlake_pool_allocate(memlake_pool* pool, size_t size, void* stream) {
  try {
    return allocate(pool_of(pool), size, stream);
  } catch (...) {
    remember_current();
    return nullptr;
  }
}

void* memlake_pool_try_allocate(memlake_pool* pool, size_t size, void* stream) {
  try {
    return allocate(pool_of(pool), size, stream, false);
  } catch (...) {
    remember_current();
    return nullptr;
  }
}

int memlake_pool_free(memlake_pool* pool, void* ptr) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (ptr != nullptr) live.by_address().free(address_of(ptr));
  });
}

int memlake_pool_free_on(memlake_pool* pool, void* ptr, void* stream) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (ptr != nullptr) live.by_address().free(address_of(ptr), static_cast<CUstream>(stream));
  });
}

int memlake_pool_record_stream(memlake_pool* pool, void* ptr, void* stream) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (ptr != nullptr) live.by_address().record_use(address_of(ptr), static_cast<CUstream>(stream));
  });
}

int memlake_pool_trim(memlake_pool* pool, size_t keep) {
  return code_from([&] { pool_of(pool).trim({keep}); });
}

int memlake_pool_stats(memlake_pool* pool, memlake_pool_stats_t* stats) {
  return code_from([&] {
    const LivePool& live = pool_of(pool);
    Bytes limit;
    const PoolStats now = live.figures().stats_since_reset(limit);
    fill(stats, to_c(now, limit), "memlake_pool_stats_t");
  });
}
}
