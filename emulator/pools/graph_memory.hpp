#pragma once

// The memory of one device's graphs. An allocation node has a range of addresses from its creation on (GraphRange). A
// launch gives the range physical memory, in pages of 2 MiB. Pages stay with the device when they are freed, until
// cuDeviceGraphMemTrim: every later launch that is ordered behind the free can take them for any range.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "basics/rights.hpp"
#include "devices/device.hpp"
#include "memory/arena.hpp"
#include "pools/pool_memory.hpp"
#include "system/storage.hpp"

namespace memlake::emulator {

class GraphMemory;

/// One page of physical memory.
struct GraphPage {
  Storage storage;
  bool is_live = false;                   ///< a launch has allocated it, and nothing has freed it
  unsigned ranges = 0;                    ///< the number of ranges that have it
  std::optional<PendingFree> after = {};  ///< the last free
};

/// The addresses of an allocation node. The node, the executable graphs made from its graph and the live allocation
/// share it; the addresses are free again when none of them is left.
class GraphRange {
 public:
  GraphRange(std::shared_ptr<GraphMemory> memory, std::uint64_t address, std::uint64_t size, std::uint64_t extent)
      : memory_(std::move(memory)), address_(address), size_(size), extent_(extent) {}
  ~GraphRange();
  GraphRange(const GraphRange&) = delete;
  GraphRange& operator=(const GraphRange&) = delete;

  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }  ///< the requested size
  [[nodiscard]] std::uint64_t extent() const { return extent_; }
  [[nodiscard]] GraphMemory& memory() const { return *memory_; }
  [[nodiscard]] const std::vector<GraphPage*>& pages() const { return pages_; }

  Rights rights = {};                     ///< of the devices that may access it
  std::uint64_t owner = 0;                ///< the handle of the allocation node's graph
  std::set<std::uint64_t> freed_by = {};  ///< the handles of the graphs that have a free node of it

 private:
  friend class GraphMemory;

  std::shared_ptr<GraphMemory> memory_;
  std::uint64_t address_;
  std::uint64_t size_;
  std::uint64_t extent_;
  std::vector<GraphPage*> pages_;  ///< of the last launch; empty before the first, and after a trim
  std::vector<GraphPage*> shown_;  ///< the pages that the CPU sees at the addresses
};
using GraphRangeRef = std::shared_ptr<GraphRange>;

class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  GraphMemory(Arena& arena, const InFlight& in_flight, Device& device)
      : arena_(arena), in_flight_(in_flight), device_(device) {}
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// Takes addresses for an allocation. Throws Refusal OUT_OF_MEMORY.
  GraphRangeRef reserve(std::uint64_t size);

  /// Gives the range physical memory, for an operation that comes after `before`. Returns the frees that
  /// the operation must wait for. `is_ordered` tells whether a free in the same launch comes before it. Throws Refusal.
  template <class IsOrdered>
  std::vector<CompletionRef> take(GraphRange& range, const Clock& before, IsOrdered&& is_ordered) {
    check_open();
    const auto may_take = [&](const GraphPage& page) {
      if (page.is_live) return false;
      if (!page.after) return true;
      if (is_ordered(*page.after)) return true;
      return before.covers(page.after->stream, page.after->position);
    };
    std::vector<GraphPage*> found;
    const std::size_t count = range.extent_ / kPoolGranule;
    // Its own pages first: they need no new mapping.
    for (GraphPage* page : range.pages_)
      if (may_take(*page)) found.push_back(page);
    if (found.size() < count) {
      found.clear();
      for (const auto& page : pages_)
        if (found.size() < count && may_take(*page)) found.push_back(page.get());
    }
    return take_pages(range, std::move(found));
  }

  /// Frees the pages of a range.
  void give_back(GraphRange& range, const std::optional<PendingFree>& after);

  /// Lets the CPU see the pages at the range's addresses. Called when the stream reaches the allocation that took them.
  /// Throws Refusal.
  void show(GraphRange& range, const std::vector<GraphPage*>& pages);

  /// The state that a launch changes before it is certain that it succeeds.
  struct Snapshot {
    struct Page {
      bool is_live;
      std::optional<PendingFree> after;
    };
    std::vector<Page> pages;
    std::vector<std::pair<GraphRange*, std::vector<GraphPage*>>> ranges;
    std::uint64_t held_high, used_high;
  };
  [[nodiscard]] Snapshot snapshot() const;
  void restore(const Snapshot& before);

  /// Releases the pages that no launch uses.
  void trim();

  /// Releases all pages, because the device or its last context ended. pre: no work runs on them.
  void close();

  [[nodiscard]] bool is_in_use() const;
  [[nodiscard]] std::uint64_t held() const { return pages_.size() * kPoolGranule; }
  /// Bytes of the pages that a range has: also of ranges that are free at the moment.
  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t held_high() const { return held_high_; }
  [[nodiscard]] std::uint64_t used_high() const { return used_high_; }
  void reset_held_high() { held_high_ = held(); }
  void reset_used_high() { used_high_ = used(); }

  [[nodiscard]] Device& device() const { return device_; }

 private:
  friend class GraphRange;

  void check_open() const;
  std::vector<CompletionRef> take_pages(GraphRange& range, std::vector<GraphPage*> pages);
  void add_page();
  void bind(GraphRange& range, std::vector<GraphPage*> pages);
  void hide(GraphRange& range);
  void end(GraphRange& range);
  void note_high();

  Arena& arena_;
  const InFlight& in_flight_;
  Device& device_;
  std::vector<std::unique_ptr<GraphPage>> pages_;
  std::set<GraphRange*> ranges_;
  bool is_closed_ = false;
  std::uint64_t held_high_ = 0;
  std::uint64_t used_high_ = 0;
};

}  // namespace memlake::emulator
