#pragma once

// What a memlake_pool* points to. It is never given back to the heap, so a pointer that outlived its pool is answered
// with "closed" instead of a crash; a pool leaves these few bytes behind.

#include <atomic>
#include <limits>
#include <memory>

#include "memlake.h"
#include "runtime/live_pool.hpp"

struct memlake_pool {
  std::atomic<memlake::LivePool*> live{nullptr};  ///< null: destroyed
  std::shared_ptr<memlake::LivePool> owned;       ///< of pools that memlake_pool_create() made
  memlake_pool* made_before = nullptr;
};

namespace memlake::abi {

/// A memlake_pool* for a pool that somebody else owns, for as long as this lives.
class BorrowedHandle {
 public:
  explicit BorrowedHandle(LivePool& pool);
  BorrowedHandle(const BorrowedHandle&) = delete;
  BorrowedHandle& operator=(const BorrowedHandle&) = delete;
  ~BorrowedHandle() { handle_->live.store(nullptr); }

  [[nodiscard]] memlake_pool* get() const noexcept { return handle_; }

 private:
  memlake_pool* handle_;
};

/// From now on the handle stays. All of them form a list, so that a search for leaks finds them in use.
memlake_pool* keep(std::unique_ptr<memlake_pool> handle) noexcept;

[[noreturn]] void refuse_size(std::uint64_t size);

/// The pool; throws Error(invalid_argument) for NULL, Error(closed) for one that was destroyed.
inline LivePool& pool_of(memlake_pool* handle) {
  if (handle == nullptr) [[unlikely]]
    throw Error(ErrorKind::invalid_argument, "the pool is NULL");
  LivePool* const live = handle->live.load(std::memory_order_acquire);
  if (live == nullptr) [[unlikely]]
    throw Error(ErrorKind::closed, "the pool was destroyed");
  return *live;
}

inline Address address_of(const void* pointer) { return {reinterpret_cast<std::uint64_t>(pointer)}; }

/// Throws Error(invalid_argument), or NoMemory. `size`: 0 gives nullptr.
inline void* allocate(LivePool& pool, std::uint64_t size, void* stream) {
  if (size == 0) [[unlikely]]
    return nullptr;
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) [[unlikely]]
    refuse_size(size);
  return reinterpret_cast<void*>(pool.allocate_at({size}, static_cast<CUstream>(stream)).value);
}

}  // namespace memlake::abi
