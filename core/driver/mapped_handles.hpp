#pragma once

// MappedHandles: where handles are mapped, as far as one Driver was asked to. The cost of cuMemSetAccess and cuMemUnmap
// depends on how many handles a range covers.

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
  /// How many handles show in the range, at least partly.
  std::size_t count_in(AddressRange range) const;
  /// Takes out those in the range. Before the unmap call, because right after it another thread may map here.
  Map take_from(AddressRange range);
  /// After an unmap call that failed.
  void put_back(Map&& taken);

 private:
  /// The first and one past the last that overlap the range.
  static std::pair<Map::const_iterator, Map::const_iterator> overlapping(const Map& map, AddressRange range);

  mutable std::mutex mutex_;
  Map by_address_;  ///< guarded by mutex_; never overlapping, because the driver refuses that
};

}  // namespace memlake
