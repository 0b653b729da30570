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
PROCESS_TEST(sync_memops_is_kept_and_makes_synchronous_functions_wait) {
  const World world("memory=256MiB,streams=manual");
  CUdeviceptr plain = 0;
  must(cuMemAlloc_v2(&plain, kMiB));
  CUdeviceptr other = 0;
  must(cuMemAlloc_v2(&other, kMiB));
  const auto is_set = [&](CUdeviceptr address) {
    unsigned value = 7;
    must(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    return value == 1;
  };
  const auto waits = [&](CUresult code) {
    must(code);
    const bool has_waited = pending(nullptr) == 0;
    must(cuCtxSynchronize());
    return has_waited;
  };
  EXPECT(!is_set(plain));
  EXPECT(!waits(cuMemsetD8_v2(plain, 1, 64)));
  EXPECT(!waits(cuMemcpyDtoD_v2(plain, other, 64)));
  const unsigned on = 1;
  must(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain + 64));
  EXPECT(is_set(plain));
  EXPECT(!is_set(other));
  EXPECT(waits(cuMemsetD8_v2(plain, 1, 64)));
  EXPECT(waits(cuMemcpyDtoD_v2(plain, other, 64)));
  EXPECT(waits(cuMemcpyDtoD_v2(other, plain, 64)));
  EXPECT(!waits(cuMemsetD8_v2(other, 1, 64)));
  EXPECT(!waits(cuMemsetD8Async(plain, 1, 64, nullptr)));  // asynchronous functions stay so
  const unsigned off = 0;
  must(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
  EXPECT(!waits(cuMemsetD8_v2(plain, 1, 64)));
  const std::uint64_t mapped = new_mapping(world.first);
  must(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mapped));
  EXPECT(is_set(mapped));
  EXPECT(waits(cuMemsetD8_v2(mapped, 1, 64)));
}

}  // namespace memlake::test
