#pragma once

// Budget: how much a pool may hold, and how much it holds in all its spaces together. Only the ledgers of its spaces
// change the level.

#include <atomic>
#include <limits>

#include "supply/level.hpp"

namespace memlake {

struct Budget {
  static constexpr Bytes kUnlimited{std::numeric_limits<std::uint64_t>::max()};

  explicit Budget(Bytes most) : limit(most) {}

  Bytes limit;      ///< what may be held; kUnlimited for no limit
  TidalLevel held;  ///< physical memory, created and not released
  Bytes promised;   ///< memory that threads are making in unlocked scopes: no other request may plan with it
  std::atomic<std::uint64_t> held_now{0};  ///< held.now for threads without the pool's lock

  void add(Bytes bytes) {
    held.add(bytes);
    held_now.store(held.now.count, std::memory_order_relaxed);
  }
  void subtract(Bytes bytes) {
    held.subtract(bytes);
    held_now.store(held.now.count, std::memory_order_relaxed);
  }

  /// Whether as much as `mark` is held and less was since this last answered yes.
  bool has_risen_to(Bytes mark) {
    if (held.now < mark || held.low >= mark) return false;
    held.settle();
    return true;
  }
};

}  // namespace memlake
