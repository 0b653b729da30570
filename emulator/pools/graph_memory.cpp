#include "pools/graph_memory.hpp"

#include <algorithm>

#include "basics/refusal.hpp"
#include "basics/rounding.hpp"

namespace memlake::emulator {

GraphRange::~GraphRange() { memory_->end(*this); }

GraphRangeRef GraphMemory::reserve(std::uint64_t size) {
  check_open();
  if (size > device_.config.memory)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "device ", device_.ordinal, " has ", device_.config.memory, " bytes in all, ",
           size, " were asked for");
  const std::uint64_t extent = std::max(round_up(size, kPoolGranule), kPoolGranule);
  const auto address = arena_.addresses().take(extent, kPoolGranule);
  if (!address) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there is no free address range of ", extent, " bytes");
  auto range = std::make_shared<GraphRange>(shared_from_this(), *address, size, extent);
  range->rights.set(device_.ordinal, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ranges_.insert(range.get());
  return range;
}

void GraphMemory::check_open() const {
  if (is_closed_) invalid("the memory of the device's graphs ended with its last context");
}

void GraphMemory::add_page() {
  auto page = std::make_unique<GraphPage>();
  if (device_.is_host_backed()) {
    page->storage = Storage(device_.heap_file(), kPoolGranule, kPoolGranule);
    if (device_.config.poison) page->storage.poison(kPoolGranule);
  }
  pages_.push_back(std::move(page));
  device_.used += kPoolGranule;
}

std::vector<CompletionRef> GraphMemory::take_pages(GraphRange& range, std::vector<GraphPage*> pages) {
  const std::size_t count = range.extent_ / kPoolGranule;
  std::vector<CompletionRef> waits;
  const std::uint64_t lacking = (count - pages.size()) * kPoolGranule;
  std::uint64_t fresh = std::min(lacking, device_.free() / kPoolGranule * kPoolGranule);
  if (fresh < lacking) {
    // No room for new pages: the launch waits for frees that are not ordered before it.
    for (const auto& page : pages_) {
      if (pages.size() + fresh / kPoolGranule == count) break;
      if (page->is_live || std::ranges::find(pages, page.get()) != pages.end()) continue;
      if (page->after) waits.push_back(page->after->completion);
      pages.push_back(page.get());
    }
    if (pages.size() + fresh / kPoolGranule < count)
      refuse(CUDA_ERROR_OUT_OF_MEMORY, "the graphs of device ", device_.ordinal, " hold ", held(),
             " bytes, with too little free memory for an allocation of ", range.size_, " bytes, and the device has ",
             device_.free(), " bytes left");
  }
  for (; fresh > 0; fresh -= kPoolGranule) {
    add_page();
    pages.push_back(pages_.back().get());
  }
  for (GraphPage* page : pages) {
    page->is_live = true;
    page->after.reset();
  }
  bind(range, std::move(pages));
  note_high();
  return waits;
}

void GraphMemory::bind(GraphRange& range, std::vector<GraphPage*> pages) {
  for (GraphPage* page : pages) ++page->ranges;
  for (GraphPage* page : range.pages_) --page->ranges;
  range.pages_ = std::move(pages);
}

void GraphMemory::give_back(GraphRange& range, const std::optional<PendingFree>& after) {
  for (GraphPage* page : range.pages_) {
    page->is_live = false;
    page->after = after;
  }
}

void GraphMemory::show(GraphRange& range, const std::vector<GraphPage*>& pages) {
  check_open();
  if (!device_.is_host_backed() || range.shown_ == pages) return;
  hide(range);
  arena_.check_room_to_show(range.address_, range.extent_);
  std::uint64_t at = range.address_;
  for (GraphPage* page : pages) {
    arena_.show(at, kPoolGranule, page->storage.fd(), page->storage.offset());
    range.shown_.push_back(page);
    at += kPoolGranule;
  }
  Arena::protect(range.address_, range.extent_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void GraphMemory::hide(GraphRange& range) {
  if (!range.shown_.empty()) arena_.hide(range.address_, range.shown_.size() * kPoolGranule, range.shown_.size());
  range.shown_.clear();
}

void GraphMemory::end(GraphRange& range) {
  ranges_.erase(&range);
  bind(range, {});
  // The addresses stay taken while work runs there that has no right to.
  if (in_flight_.user_of(range.address_, range.extent_, true) != nullptr) return;
  hide(range);
  arena_.addresses().give_back(range.address_, range.extent_);
}

std::uint64_t GraphMemory::used() const {
  return kPoolGranule *
         static_cast<std::uint64_t>(std::ranges::count_if(pages_, [](const auto& page) { return page->ranges > 0; }));
}

void GraphMemory::note_high() {
  held_high_ = std::max(held_high_, held());
  used_high_ = std::max(used_high_, used());
}

GraphMemory::Snapshot GraphMemory::snapshot() const {
  Snapshot now{.pages = {}, .ranges = {}, .held_high = held_high_, .used_high = used_high_};
  for (const auto& page : pages_) now.pages.push_back({page->is_live, page->after});
  for (GraphRange* range : ranges_) now.ranges.emplace_back(range, range->pages_);
  return now;
}

void GraphMemory::restore(const Snapshot& before) {
  for (const auto& [range, pages] : before.ranges)
    if (ranges_.contains(range)) bind(*range, pages);
  device_.used -= (pages_.size() - before.pages.size()) * kPoolGranule;
  pages_.resize(before.pages.size());
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    pages_[i]->is_live = before.pages[i].is_live;
    pages_[i]->after = before.pages[i].after;
  }
  held_high_ = before.held_high;
  used_high_ = before.used_high;
}

void GraphMemory::trim() {
  const auto is_idle = [&](const GraphPage& page) {
    return !page.is_live && (!page.after || page.after->completion->is_done);
  };
  for (GraphRange* range : ranges_) {
    const bool is_unused = std::ranges::all_of(range->pages_, [&](const GraphPage* page) { return is_idle(*page); }) &&
                           std::ranges::all_of(range->shown_, [&](const GraphPage* page) { return is_idle(*page); });
    if (!is_unused || in_flight_.user_of(range->address_, range->extent_) != nullptr) continue;
    hide(*range);
    bind(*range, {});
  }
  const auto is_shown = [&](const GraphPage* page) {
    return std::ranges::any_of(ranges_, [&](const GraphRange* range) {
      return std::ranges::find(range->shown_, page) != range->shown_.end();
    });
  };
  device_.used -= kPoolGranule * std::erase_if(pages_, [&](const auto& page) {
                    return is_idle(*page) && page->ranges == 0 && !is_shown(page.get());
                  });
}

void GraphMemory::close() {
  for (GraphRange* range : ranges_) {
    hide(*range);
    bind(*range, {});
  }
  device_.used -= held();
  pages_.clear();
  is_closed_ = true;
}

bool GraphMemory::is_in_use() const {
  return std::ranges::any_of(ranges_, [&](const GraphRange* range) {
    return in_flight_.user_of(range->address_, range->extent_, true) != nullptr;
  });
}

}  // namespace memlake::emulator
