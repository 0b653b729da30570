#pragma once

// LoneAddresses: where ranges would lie if a pool were alone in the address space. PyTorch takes the lowest place of
// its expandable segments, so the order of their addresses decides where memory is mapped. The driver places a
// reservation wherever the rest of the process leaves room; a replay must not depend on what else runs. So the order is
// that of addresses of our own, given out as an idle driver does: the lowest gap that is large enough.

#include <cstdint>
#include <map>

#include "base/address.hpp"

namespace memlake {

class LoneAddresses {
 public:
  Address take(Bytes size);
  /// pre: `begin` is what `take` gave.
  void give_back(Address begin);

 private:
  std::map<std::uint64_t, std::uint64_t> taken_;  // end by begin
};

}  // namespace memlake
