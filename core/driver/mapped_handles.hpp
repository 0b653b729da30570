#pragma once

// MappedHandles: the address ranges at which one Driver has mapped handles. The cost of cuMemSetAccess and cuMemUnmap
// depends on the number of handles in a range.

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "base/address.hpp"

namespace memlake {

class MappedHandles {
 public:
  using Map = std::map<Address, Bytes>;

  void add(AddressRange range);
  /// The number of handles that are mapped in the range, at least partly.
  std::size_t count_in(AddressRange range) const;
  /// Removes those in the range. Called before the unmap call, because right after it another thread may map here.
  Map take_from(AddressRange range);
  /// Restores them after an unmap call that failed.
  void put_back(Map&& taken);

 private:
  /// The entries that overlap the range: the first, and one past the last.
  static std::pair<Map::const_iterator, Map::const_iterator> overlapping(const Map& map, AddressRange range);

  mutable std::mutex mutex_;
  Map by_address_;  ///< guarded by mutex_; never overlapping, because the driver refuses that
};

}  // namespace memlake
