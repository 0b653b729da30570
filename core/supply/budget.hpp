#pragma once

// Budget: the limit of a pool, and the memory that all its spaces together hold. Only the ledgers of the spaces add to
// it or subtract from it.

#include <atomic>
#include <limits>

#include "supply/level.hpp"

namespace memlake {

struct Budget {
  static constexpr Bytes kUnlimited{std::numeric_limits<std::uint64_t>::max()};

  explicit Budget(Bytes most) : limit(most) {}

  Bytes limit;      ///< the most that may be held; kUnlimited for no limit
  TidalLevel held;  ///< physical memory, created and not released
  Bytes promised;   ///< memory that threads are creating in unlocked scopes; other requests must not count on it
  std::atomic<std::uint64_t> held_now{0};  ///< held.now for threads without the pool's lock

  void add(Bytes bytes) {
    held.add(bytes);
    held_now.store(held.now.count, std::memory_order_relaxed);
  }
  void subtract(Bytes bytes) {
    held.subtract(bytes);
    held_now.store(held.now.count, std::memory_order_relaxed);
  }

  /// Whether at least `mark` is held now, and less was held at some time since this last returned true.
  bool has_risen_to(Bytes mark) {
    if (held.now < mark || held.low >= mark) return false;
    held.settle();
    return true;
  }
};

}  // namespace memlake
