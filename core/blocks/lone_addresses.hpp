#pragma once

// LoneAddresses: the addresses that ranges would have if the pool were alone in the address space. PyTorch takes the
// lowest place of its expandable segments, so the order of their addresses decides where memory is mapped. The driver
// places a reservation where the rest of the process leaves room, but a replay must not depend on other code. So
// segments are ordered by addresses that this class assigns as an idle driver does: in the lowest gap that is large
// enough for the range.

#include <cstdint>
#include <map>

#include "base/address.hpp"

namespace memlake {

class LoneAddresses {
 public:
  Address take(Bytes size);
  /// pre: `take` returned `begin`.
  void give_back(Address begin);

 private:
  std::map<std::uint64_t, std::uint64_t> taken_;  // end by begin
};

}  // namespace memlake
