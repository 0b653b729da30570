// The cost of one emulated create + map + set access + unmap + release through the C ABI.
//
// usage: emulator_cycle LIBRARY CONFIG CYCLES PASSES LIVE
// LIVE chunks are made and mapped first and stay, since a driver that serves a job is never empty. Prints the
// nanoseconds of thread CPU time per cycle, one line per pass; benchmarks/emulator_cycle.py makes figures of them.

#include <cstdio>
#include <string>

#include "driver/cuda_abi.hpp"
#include "loaded_library.hpp"

using namespace memlake::cuda;

namespace {

constexpr std::size_t kChunk = std::size_t{2} << 20;  // the emulator's default granularity: one granule

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: emulator_cycle LIBRARY CONFIG CYCLES PASSES LIVE\n");
    return 2;
  }
  const LoadedLibrary library(argv[1]);
  const long cycles = std::stol(argv[3]);
  const long passes = std::stol(argv[4]);
  const std::size_t live = std::stoul(argv[5]);

  auto* add_devices = library.find<int(const char*, int*, int*)>("memlakeEmulatorAddDevices");
  auto* init = library.find<CUresult(unsigned)>("cuInit");
  auto* retain = library.find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  auto* reserve =
      library.find<CUresult(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, cuuint64_t)>("cuMemAddressReserve");
  auto* create =
      library.find<CUresult(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*, cuuint64_t)>(
          "cuMemCreate");
  auto* map = library.find<CUresult(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, cuuint64_t)>(
      "cuMemMap");
  auto* set_access =
      library.find<CUresult(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t)>("cuMemSetAccess");
  auto* unmap = library.find<CUresult(CUdeviceptr, std::size_t)>("cuMemUnmap");
  auto* release = library.find<CUresult(CUmemGenericAllocationHandle)>("cuMemRelease");

  int device = 0;
  int count = 0;
  CUcontext context = nullptr;
  CUdeviceptr base = 0;
  expect_success(add_devices(argv[2], &device, &count), "memlakeEmulatorAddDevices");
  expect_success(init(0), "cuInit");
  expect_success(retain(&context, device), "cuDevicePrimaryCtxRetain");
  expect_success(reserve(&base, (live + 1) * kChunk, 0, 0, 0), "cuMemAddressReserve");

  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemAccessDesc access{property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

  const auto show = [&](CUdeviceptr address, CUmemGenericAllocationHandle& handle) {
    expect_success(create(&handle, kChunk, &property, 0), "cuMemCreate");
    expect_success(map(address, kChunk, 0, handle, 0), "cuMemMap");
    expect_success(set_access(address, kChunk, &access, 1), "cuMemSetAccess");
  };

  CUmemGenericAllocationHandle handle = 0;
  for (std::size_t i = 1; i <= live; ++i) show(base + i * kChunk, handle);
  for (long pass = 0; pass < passes; ++pass) {
    const double start = thread_nanoseconds();
    for (long cycle = 0; cycle < cycles; ++cycle) {
      show(base, handle);
      expect_success(unmap(base, kChunk), "cuMemUnmap");
      expect_success(release(handle), "cuMemRelease");
    }
    std::printf("%.1f\n", (thread_nanoseconds() - start) / static_cast<double>(cycles));
  }
  return 0;
}
