#include "memory/managed_pages.hpp"

#include <algorithm>
#include <iterator>

#include "basics/rounding.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

bool PageHome::is_none() const { return type == cuda::CU_MEM_LOCATION_TYPE_INVALID; }
bool PageHome::is_device() const { return type == cuda::CU_MEM_LOCATION_TYPE_DEVICE; }

PageHome home_of(const cuda::CUmemLocation& location) {
  switch (location.type) {
    case cuda::CU_MEM_LOCATION_TYPE_DEVICE:
    case cuda::CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return {location.type, location.id};
    case cuda::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return {cuda::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    default:
      return {location.type, 0};
  }
}

ManagedPages::Span ManagedPages::whole_pages(std::uint64_t address, std::uint64_t size) {
  return {address / host_page() * host_page(), round_up(address + size, host_page())};
}

void ManagedPages::cut(std::uint64_t at) {
  auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  pieces_.emplace_hint(next, at, piece->second);
  piece->second.end = at;
}

template <class Change>
void ManagedPages::change(Span span, Change&& apply) {
  cut(span.start);
  cut(span.end);
  auto at = pieces_.lower_bound(span.start);
  for (std::uint64_t from = span.start; from < span.end;) {
    if (at == pieces_.end() || at->first > from) {
      const std::uint64_t to = at == pieces_.end() ? span.end : std::min(span.end, at->first);
      at = pieces_.emplace_hint(at, from, Piece{to, {}});
    }
    apply(at->second.advice);
    from = at->second.end;
    at = at->second.advice == Advice{} ? pieces_.erase(at) : std::next(at);
  }
}

template <class Use>
void ManagedPages::each(Span span, Use&& use) const {
  auto at = pieces_.upper_bound(span.start);
  if (at != pieces_.begin() && std::prev(at)->second.end > span.start) --at;
  for (std::uint64_t from = span.start; from < span.end;) {
    const bool has_advice = at != pieces_.end() && at->first <= from;
    const std::uint64_t to = has_advice ? at->second.end : at == pieces_.end() ? span.end : at->first;
    use(Span{from, std::min(to, span.end)}, has_advice ? at->second.advice : Advice{});
    if (has_advice) ++at;
    from = to;
  }
}

void ManagedPages::set_read_mostly(std::uint64_t address, std::uint64_t size, bool is_set) {
  change(whole_pages(address, size), [&](Advice& advice) { advice.is_read_mostly = is_set; });
}

void ManagedPages::set_preferred(std::uint64_t address, std::uint64_t size, PageHome home) {
  change(whole_pages(address, size), [&](Advice& advice) { advice.preferred = home; });
}

void ManagedPages::set_accessed_by(std::uint64_t address, std::uint64_t size, int by, bool is_set) {
  change(whole_pages(address, size), [&](Advice& advice) {
    if (is_set) {
      advice.accessed_by.insert(by);
    } else {
      advice.accessed_by.erase(by);
    }
  });
}

void ManagedPages::prefetch(std::uint64_t address, std::uint64_t size, PageHome home) {
  const Span span = whole_pages(address, size);
  change(span, [&](Advice& advice) { advice.prefetched = home; });
  each(span, [&](Span part, const Advice& advice) { move_to(part, home, advice.is_read_mostly); });
}

void ManagedPages::move_to(Span span, PageHome home, bool keeps_copies) {
  Device* device = home.is_device() ? devices_.find_open(home.id) : nullptr;
  const std::uint64_t size = span.end - span.start;
  if (!keeps_copies)
    for (const auto& other : devices_.all())
      if (other.get() != device) other->managed.remove(span.start, size);
  if (device == nullptr) return;
  device->managed.add(span.start, size);
  device->managed.shrink_to(device->free());
}

void ManagedPages::discard(std::uint64_t address, std::uint64_t size) {
  const Span span = whole_pages(address, size);
  for (const auto& device : devices_.all()) device->managed.remove(span.start, span.end - span.start);
}

void ManagedPages::touch_by(Device& device, const Touch& touch) {
  each(whole_pages(touch.address, touch.size), [&](Span part, const Advice& advice) {
    const PageHome own{cuda::CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal};
    if (advice.is_read_mostly && !touch.is_write) return move_to(part, own, true);
    const bool is_reachable =
        !advice.preferred.is_none() &&
        (!advice.preferred.is_device() || advice.preferred == own || device.can_access(advice.preferred.id));
    move_to(part, is_reachable ? advice.preferred : own, false);
  });
}

void ManagedPages::touch_by_host(const Touch& touch) {
  each(whole_pages(touch.address, touch.size), [&](Span part, const Advice& advice) {
    move_to(part, {cuda::CU_MEM_LOCATION_TYPE_HOST, 0}, advice.is_read_mostly && !touch.is_write);
  });
}

void ManagedPages::forget(std::uint64_t address, std::uint64_t size) {
  const Span span = whole_pages(address, size);
  change(span, [](Advice& advice) { advice = {}; });
  discard(address, size);
}

ManagedPages::Advice ManagedPages::common(std::uint64_t address, std::uint64_t size) const {
  std::optional<Advice> found;
  each(whole_pages(address, size), [&](Span, const Advice& advice) {
    if (!found) {
      found = advice;
      return;
    }
    found->is_read_mostly = found->is_read_mostly && advice.is_read_mostly;
    if (found->preferred != advice.preferred) found->preferred = {};
    if (found->prefetched != advice.prefetched) found->prefetched = {};
    std::erase_if(found->accessed_by, [&](int by) { return !advice.accessed_by.contains(by); });
  });
  return found.value_or(Advice{});
}

}  // namespace memlake::emulator
