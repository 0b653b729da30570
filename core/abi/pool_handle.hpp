#pragma once

// The object of a memlake_pool*. It is never freed, so a call with the pointer of a destroyed pool fails with "closed"
// instead of a crash. Each pool leaves these few bytes behind.

#include <atomic>
#include <limits>
#include <memory>

#include "memlake.h"
#include "runtime/live_pool.hpp"

struct memlake_pool {
  std::atomic<memlake::LivePool*> live{nullptr};  ///< null: destroyed
  std::shared_ptr<memlake::LivePool> owned;       ///< set for pools from memlake_pool_create()
  int device = 0;                                 ///< the number that its maker gave the device
  memlake_pool* made_before = nullptr;
};

namespace memlake::abi {

/// A memlake_pool* for a pool that has another owner. It is valid as long as this object lives.
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

/// Keeps the handle until the process ends. All handles form a list, so that a leak checker finds them reachable.
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

/// What C programs get to know of a block.
[[nodiscard]] memlake_block_t to_c(const FoundBlock& block, int device);

inline Address address_of(const void* pointer) { return {reinterpret_cast<std::uint64_t>(pointer)}; }

/// Throws Error(invalid_argument) for a size that no memory has.
inline void require_size(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) [[unlikely]]
    refuse_size(size);
}

/// Throws Error(invalid_argument), or NoMemory. `size`: 0 gives nullptr.
inline void* allocate(LivePool& pool, std::uint64_t size, void* stream, bool counts_refusal = true) {
  if (size == 0) [[unlikely]]
    return nullptr;
  require_size(size);
  return reinterpret_cast<void*>(
      pool.by_address().allocate({size}, static_cast<CUstream>(stream), counts_refusal).value);
}

}  // namespace memlake::abi
