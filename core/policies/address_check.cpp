#include "policies/address_check.hpp"

#include <algorithm>

namespace memlake {

void check_apart(std::vector<AddressRange> ranges, InvariantReport& report) {
  std::ranges::sort(ranges, {}, &AddressRange::begin);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i - 1].overlaps(ranges[i])) report.add("I3: two segments overlap");
}

}  // namespace memlake
