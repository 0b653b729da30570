#pragma once

// A check of the address ranges of a space.

#include <vector>

#include "base/address.hpp"
#include "policies/invariant_report.hpp"

namespace memlake {

/// I3: no address lies in two ranges.
void check_apart(std::vector<AddressRange> ranges, InvariantReport& report);

}  // namespace memlake
