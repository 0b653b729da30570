#include "driver/mapped_handles.hpp"

#include <iterator>
#include <utility>

namespace memlake {

void MappedHandles::add(AddressRange range) {
  const std::lock_guard lock(mutex_);
  // The driver accepted the mapping, so whatever we still believe to be here went with a closed device.
  const auto [first, last] = overlapping(by_address_, range);
  by_address_.erase(first, last);
  by_address_.emplace(range.begin, range.size);
}

std::size_t MappedHandles::count_in(AddressRange range) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = overlapping(by_address_, range);
  return static_cast<std::size_t>(std::distance(first, last));
}

MappedHandles::Map MappedHandles::take_from(AddressRange range) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = overlapping(by_address_, range);
  Map taken;
  // Nodes change hands; nothing is allocated on this path.
  for (auto it = first; it != last;) taken.insert(taken.end(), by_address_.extract(it++));
  return taken;
}

void MappedHandles::put_back(Map&& taken) {
  const std::lock_guard lock(mutex_);
  by_address_.merge(std::move(taken));
}

std::pair<MappedHandles::Map::const_iterator, MappedHandles::Map::const_iterator> MappedHandles::overlapping(
    const Map& map, AddressRange range) {
  auto first = map.lower_bound(range.begin);
  if (first != map.begin()) {
    const auto before = std::prev(first);
    if (AddressRange{before->first, before->second}.contains(range.begin)) first = before;
  }
  // A range that wraps around the address space comes from a bad call; it covers what is behind its begin.
  const auto last = range.end() < range.begin ? map.end() : map.lower_bound(range.end());
  return {first, last};
}

}  // namespace memlake
