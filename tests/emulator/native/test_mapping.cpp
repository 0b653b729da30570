// Reservations, mappings and access where the conformance cases do not go: absurd numbers, mixed rules, work that runs.

#include <atomic>
#include <thread>
#include <vector>

#include "abi.hpp"
#include "cpu_access.hpp"

namespace memlake::test {

namespace {

constexpr std::uint64_t kTop = std::uint64_t{1} << 63;

unsigned long long access_of(int device, std::uint64_t address) {
  unsigned long long flags = 77;
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  must(cuMemGetAccess(&flags, &location, address));
  return flags;
}

}  // namespace

PROCESS_TEST(absurd_sizes_alignments_and_addresses_are_refused_and_change_nothing) {
  const World world;
  const std::uint64_t before = free_memory();
  CUdeviceptr address = 77;
  const std::uint64_t sizes[] = {UINT64_MAX - 4095, kTop, kTop - 4096, std::uint64_t{1} << 62, std::uint64_t{1} << 47};
  for (const std::uint64_t size : sizes) {
    EXPECT_EQ(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAddressReserve(&address, size, kTop, size, 0), CUDA_ERROR_OUT_OF_MEMORY);
  }
  EXPECT_EQ(cuMemAddressReserve(&address, 4096, kTop, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAddressReserve(&address, 4096, kTop + 1, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAddressReserve(&address, UINT64_MAX, UINT64_MAX, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  const CUmemAllocationProp prop = device_prop(world.first);
  CUmemGenericAllocationHandle handle = 77;
  for (const std::uint64_t size : {UINT64_MAX - kGranule + 1, kTop, std::uint64_t{1} << 62})
    EXPECT_EQ(cuMemCreate(&handle, size, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemCreate(&handle, UINT64_MAX, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  for (const std::uint64_t size : {UINT64_MAX, kTop, std::uint64_t{1} << 62})
    EXPECT_EQ(cuMemAlloc_v2(&address, size), CUDA_ERROR_OUT_OF_MEMORY);
  void* pinned = nullptr;
  for (const std::uint64_t size : {UINT64_MAX, kTop, UINT64_MAX - 5000})
    EXPECT_EQ(cuMemHostAlloc(&pinned, size, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemHostRegister_v2(&pinned, UINT64_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(address, 77U);
  EXPECT_EQ(handle, 77U);

  const std::uint64_t mapped = new_mapping(world.first);
  const std::uint64_t more = create(world.first, kGranule);
  const CUmemAccessDesc desc = access_desc(world.first);
  const std::uint64_t wrapping[] = {UINT64_MAX, UINT64_MAX - mapped + 1, kTop, UINT64_MAX - kGranule + 1};
  for (const std::uint64_t size : wrapping) {
    EXPECT_EQ(cuMemMap(mapped, size, 0, more, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(mapped, kGranule, size, more, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(mapped, size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemSetAccess(mapped, size, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(mapped, size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD8_v2(mapped, 0, size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32_v2(mapped, 0, size / 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoD_v2(mapped, mapped, size), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemSetAccess(mapped, kGranule, &desc, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(UINT64_MAX - kGranule + 1, kGranule, 0, more, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(before - free_memory(), 2 * kGranule);
  EXPECT_EQ(access_of(world.first, mapped), 3U);
}

PROCESS_TEST(a_copy_over_the_end_of_an_allocation_is_refused_even_into_the_next_one) {
  const World world;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  must(cuMemAlloc_v2(&first, 512));
  must(cuMemAlloc_v2(&second, 512));
  EXPECT_EQ(second, first + 512);
  EXPECT_EQ(cuMemsetD8_v2(first, 0, 513), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("runs over the end"));
  must(cuMemsetD8_v2(first, 0, 512));
}

PROCESS_TEST(access_of_a_part_is_set_on_that_part_only_where_the_rule_is_relaxed) {
  const World world("memory=64MiB,granularity=64KiB,relax=set_access_subrange");
  constexpr std::uint64_t piece = 64 << 10;
  const std::uint64_t address = new_mapping(world.first, 4 * piece);
  set_access(address + piece, piece, access_desc(world.first, 1));
  set_access(address + 2 * piece, 2 * piece, access_desc(world.first, 0));
  const unsigned wanted[] = {3, 1, 0, 0};
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(access_of(world.first, address + i * piece), wanted[i]);
    EXPECT_EQ(cpu_access(address + (i + 1) * piece - 1), wanted[i]);
  }
  char bytes[2];
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, address + 2 * piece - 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, address + piece - 1, 2), CUDA_SUCCESS);
  must(cuMemUnmap(address, 4 * piece));
  must(cuMemAddressFree(address, 4 * piece));
}

PROCESS_TEST(a_range_is_cut_only_where_both_of_its_ends_allow_it) {
  const World relaxed("memory=64MiB,relax=set_access_subrange");
  const World strict("memory=64MiB");
  relaxed.use(0);
  const std::uint64_t address = reserve(4 * kGranule);
  must(cuMemMap(address, 2 * kGranule, 0, create(relaxed.first, 2 * kGranule), 0));
  must(cuMemMap(address + 2 * kGranule, 2 * kGranule, 0, create(strict.first, 2 * kGranule), 0));
  CUmemAccessDesc nobody = access_desc(relaxed.first, 0);
  // The descriptor is of a device that cannot reach the other's memory; the cut is refused before that is asked.
  EXPECT_EQ(cuMemSetAccess(address + kGranule, 2 * kGranule, &nobody, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("only a part of the mapping"));
}

PROCESS_TEST(lowering_the_access_of_a_neighbour_is_no_violation) {
  const World world;
  const std::uint64_t address = reserve(2 * kGranule);
  for (const std::uint64_t at : {address, address + kGranule})
    must(cuMemMap(at, kGranule, 0, create(world.first, kGranule), 0));
  set_access(address, 2 * kGranule, access_desc(world.first));
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  must(cuMemsetD8Async(address + kGranule, 1, 512, stream));
  set_access(address, kGranule, access_desc(world.first, 1));
  const CUmemAccessDesc lower = access_desc(world.first, 1);
  EXPECT_EQ(cuMemSetAccess(address, 2 * kGranule, &lower, 1), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("cuMemsetD8Async of 512 bytes"));
  EXPECT_EQ(access_of(world.first, address + kGranule), 3U);
  must(memlakeEmulatorOpen(gate));
}

PROCESS_TEST(a_relaxed_mapping_is_not_taken_from_under_work_that_runs) {
  const World strict("memory=1GiB");
  const World relaxed("memory=1GiB,relax=inflight_unmap+unmap_across_reservations");
  constexpr std::uint64_t size = 64 * kMiB;
  // The relaxed mapping is the second one of the range, behind a strict one.
  const std::uint64_t address = reserve(kGranule + size);
  must(cuMemMap(address, kGranule, 0, create(strict.first, kGranule), 0));
  must(cuMemMap(address + kGranule, size, 0, create(relaxed.first, size), 0));
  set_access(address + kGranule, size, access_desc(relaxed.first));
  const CUstream stream = new_stream();
  for (int i = 0; i < 20; ++i) must(cuMemsetD8Async(address + kGranule, 1, size, stream));
  EXPECT_EQ(cuMemUnmap(address, kGranule + size), CUDA_SUCCESS);  // and the process lives
  const CUresult end = cuStreamSynchronize(stream);               // what was still queued failed
  EXPECT(end == CUDA_SUCCESS || end == CUDA_ERROR_ILLEGAL_ADDRESS);
}

PROCESS_TEST(queued_work_uses_what_is_mapped_when_its_turn_comes) {
  const World bytes("memory=64MiB,relax=inflight_unmap");
  const World none("memory=64MiB,backing=none");
  bytes.use(0);
  CUmemAllocationProp host{};
  host.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  host.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  const std::uint64_t address = new_mapping(bytes.first);
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  must(cuMemsetD8Async(address, 7, kGranule, stream));
  must(cuMemUnmap(address, kGranule));
  must(cuMemMap(address, kGranule, 0, create(host, kGranule), 0));
  set_access(address, kGranule, access_desc(bytes.first));
  must(memlakeEmulatorOpen(gate));
  must(cuStreamSynchronize(stream));
  char byte = 0;
  must(cuMemcpyDtoH_v2(&byte, address + kGranule - 1, 1));
  EXPECT_EQ(+byte, 7);
}

}  // namespace memlake::test
