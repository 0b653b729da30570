#pragma once

// Budget: the limit of a pool, and the memory that all its spaces together hold. Only the ledgers of the spaces add to
// it or subtract from it.

#include <atomic>
#include <limits>
#include <vector>

#include "supply/level.hpp"

namespace memlake {

struct Budget {
  static constexpr Bytes kUnlimited{std::numeric_limits<std::uint64_t>::max()};

  /// `places`: the number of devices of the pool, for held_on.
  explicit Budget(Bytes most, std::size_t places = 1) : limit(most), held_on(places) {}

  Bytes limit;       ///< the most that may be held; kUnlimited for no limit
  TidalLevel held;   ///< physical memory, created and not released
  Bytes promised;    ///< memory that threads are creating in unlocked scopes; other requests must not count on it
  Bytes unreleased;  ///< memory whose release failed; it is on the devices, and in no space
  std::vector<std::atomic<std::uint64_t>> held_on;  ///< held.now on each device, for threads without the pool's lock

  void add(Bytes bytes, std::size_t place) {
    held.add(bytes);
    if (place < held_on.size()) held_on[place].fetch_add(bytes.count, std::memory_order_relaxed);
  }
  void subtract(Bytes bytes, std::size_t place) {
    held.subtract(bytes);
    if (place < held_on.size()) held_on[place].fetch_sub(bytes.count, std::memory_order_relaxed);
  }

  /// Whether at least `mark` is held now, and less was held at some time since this last returned true.
  bool has_risen_to(Bytes mark) {
    if (held.now < mark || held.low >= mark) return false;
    held.settle();
    return true;
  }
};

}  // namespace memlake
