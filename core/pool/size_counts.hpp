#pragma once

// SizeCounts: PyTorch's statistics of a pool (torch.cuda.memory_stats), for all requests and by their class of sizes.

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/bytes.hpp"

namespace memlake {

/// A level and its history.
struct Count {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  ///< the sum of all increases
  std::int64_t freed = 0;      ///< the sum of all decreases
  std::int64_t outside = 0;    ///< what another allocator of the program has beside it; the peak is that of both

  void add(std::int64_t more) {
    current += more;
    allocated += more;
    raise_peak();
  }
  void raise_peak() { peak = std::max(peak, current + outside); }
  void subtract(std::int64_t less) {
    current -= less;
    freed += less;
  }
};

/// Of all requests, of the small ones and of the large ones.
struct CountBySize {
  std::array<Count, 3> of;

  static constexpr std::size_t place(bool is_small) { return is_small ? 1 : 2; }

  void add(std::uint64_t more, bool is_small) {
    of[0].add(static_cast<std::int64_t>(more));
    of[place(is_small)].add(static_cast<std::int64_t>(more));
  }
  void subtract(std::uint64_t less, bool is_small) {
    of[0].subtract(static_cast<std::int64_t>(less));
    of[place(is_small)].subtract(static_cast<std::int64_t>(less));
  }
  void reset_totals() {
    for (Count& count : of) count.allocated = count.freed = 0;
  }
  /// Both classes at once.
  void set(std::uint64_t small, std::uint64_t large) {
    for (const bool is_small : {true, false}) {
      const auto now = static_cast<std::int64_t>(is_small ? small : large);
      const std::int64_t before = of[place(is_small)].current;
      if (now < before) subtract(static_cast<std::uint64_t>(before - now), is_small);
    }
    // After the decreases, so that the peak of all is not raised by memory that changes its class.
    for (const bool is_small : {true, false}) {
      const auto now = static_cast<std::int64_t>(is_small ? small : large);
      const std::int64_t before = of[place(is_small)].current;
      if (now > before) add(static_cast<std::uint64_t>(now - before), is_small);
    }
  }
};

/// One value for each Count of SizeCounts, in its order.
using SizeLevels = std::array<std::int64_t, 27>;

struct SizeCounts {
  /// PyTorch's kSmallSize.
  static constexpr Bytes kLargestSmall{std::uint64_t{1} << 20};
  static constexpr bool is_small(Bytes requested) { return requested <= kLargestSmall; }

  CountBySize allocations;  ///< until free() is called
  CountBySize segments;
  CountBySize active;           ///< until the blocks are free again
  CountBySize inactive_splits;  ///< free blocks of segments that have used ones, too
  CountBySize allocated_bytes;
  CountBySize held_bytes;
  CountBySize active_bytes;
  CountBySize inactive_split_bytes;
  CountBySize requested_bytes;

  template <class Visit>
  void for_each(Visit&& visit) {
    for (CountBySize* count : {&allocations, &segments, &active, &inactive_splits, &allocated_bytes, &held_bytes,
                               &active_bytes, &inactive_split_bytes, &requested_bytes})
      for (Count& one : count->of) visit(one);
  }
  void reset_peaks() {
    for_each([](Count& count) { count.peak = count.current + count.outside; });
  }
  void set_outside(const SizeLevels& levels) {
    auto level = levels.begin();
    for_each([&](Count& count) {
      count.outside = *level++;
      count.raise_peak();
    });
  }
  void reset_totals() {
    for_each([](Count& count) { count.allocated = count.freed = 0; });
  }
};

}  // namespace memlake
