#include "blocks/lone_addresses.hpp"

namespace memlake {

Address LoneAddresses::take(Bytes size) {
  std::uint64_t begin = 0;
  for (const auto& [other_begin, other_end] : taken_) {
    if (other_begin - begin >= size.count) break;
    begin = other_end;
  }
  taken_.emplace(begin, begin + size.count);
  return {begin};
}

void LoneAddresses::give_back(Address begin) { taken_.erase(begin.value); }

}  // namespace memlake
