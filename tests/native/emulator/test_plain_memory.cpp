// cuMemAlloc below 1 MiB: many allocations share 2 MiB, and none overlaps another.

#include <iterator>
#include <map>

#include "abi.hpp"
#include "test.hpp"

namespace memlake::test {
namespace {

/// Sizes from 1 byte to just below 1 MiB, in an order that mixes them.
std::uint64_t some_size(std::uint64_t number) { return 1 + number * 7919 * 127 % (kMiB - 1); }

PROCESS_TEST(small_allocations_never_overlap_and_are_reused) {
  const World world("memory=8GiB,backing=none");
  std::map<CUdeviceptr, std::uint64_t> live;
  const auto allocate = [&](std::uint64_t number) {
    CUdeviceptr address = 0;
    const std::uint64_t size = some_size(number);
    must(cuMemAlloc_v2(&address, size));
    EXPECT_EQ(address % 512, 0U);
    const auto next = live.lower_bound(address);
    EXPECT(next == live.end() || next->first >= address + size);
    EXPECT(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= address);
    live.emplace(address, size);
  };
  for (std::uint64_t i = 0; i < 3000; ++i) allocate(i);
  std::uint64_t highest = live.rbegin()->first;
  for (auto at = live.begin(); at != live.end();) {
    must(cuMemFree_v2(at->first));
    at = live.erase(at);
    if (at != live.end()) ++at;
  }
  for (std::uint64_t i = 0; i < 1000; ++i) allocate(i);
  EXPECT(live.rbegin()->first <= highest + 16 * kGranule);  // the gaps were used before new addresses
  for (const auto& [address, size] : live) must(cuMemFree_v2(address));
  std::size_t free = 0;
  std::size_t total = 0;
  must(cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(free, total);
}

}  // namespace
}  // namespace memlake::test
