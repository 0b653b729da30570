#pragma once

// The pages of managed memory: what the program has advised about them, and in which memory they lie.
//
// The emulator cannot see accesses of the CPU. It counts the pages that prefetches, copies, fills and declared work
// bring to a device, from the call on, so that the figures are the same in every run. Pages on no device lie on the
// host, or were never used.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "basics/rights.hpp"
#include "devices/device.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

/// A place of managed pages. The type INVALID stands for none.
struct PageHome {
  int type = 0;  ///< CUmemLocationType; HOST_NUMA_CURRENT does not occur here
  int id = 0;    ///< a device's ordinal or a NUMA node; 0 for other types

  auto operator<=>(const PageHome&) const = default;
  [[nodiscard]] bool is_none() const;
  [[nodiscard]] bool is_device() const;
};

/// The home that a location names: the node of HOST_NUMA_CURRENT is 0, as the emulator has one node.
PageHome home_of(const cuda::CUmemLocation& location);

class ManagedPages {
 public:
  explicit ManagedPages(Devices& devices) : devices_(devices) {}

  /// What is known about one page.
  struct Advice {
    bool is_read_mostly = false;
    PageHome preferred = {};
    PageHome prefetched = {};        ///< the place of the last prefetch
    std::set<int> accessed_by = {};  ///< ordinals; kHost stands for the CPU

    bool operator==(const Advice&) const = default;
  };

  // A range counts with all pages that it touches.
  void set_read_mostly(std::uint64_t address, std::uint64_t size, bool is_set);
  void set_preferred(std::uint64_t address, std::uint64_t size, PageHome home);
  void set_accessed_by(std::uint64_t address, std::uint64_t size, int by, bool is_set);
  void prefetch(std::uint64_t address, std::uint64_t size, PageHome home);

  /// The contents are no longer useful: the pages leave all devices.
  void discard(std::uint64_t address, std::uint64_t size);

  /// Work on a device touches the range. The pages come to their preferred place if the device can reach that, and to
  /// the device itself otherwise.
  void touch_by(Device& device, const Touch& touch);
  /// A copy uses the range as host memory. The CPU reaches no device's memory, so the pages come to the host.
  void touch_by_host(const Touch& touch);

  /// The memory was freed.
  void forget(std::uint64_t address, std::uint64_t size);

  /// What all pages of the range have in common: a field that differs between them has its value for "none".
  [[nodiscard]] Advice common(std::uint64_t address, std::uint64_t size) const;

 private:
  struct Piece {
    std::uint64_t end;
    Advice advice;
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by start; pages without advice have no piece

  struct Span {
    std::uint64_t start;
    std::uint64_t end;
  };
  static Span whole_pages(std::uint64_t address, std::uint64_t size);

  template <class Change>
  void change(Span span, Change&& apply);
  /// Calls `use` with each part of the span and its advice.
  template <class Use>
  void each(Span span, Use&& use) const;
  void cut(std::uint64_t at);
  void move_to(Span span, PageHome home, bool keeps_copies);

  Devices& devices_;
  Pieces pieces_;
};

}  // namespace memlake::emulator
