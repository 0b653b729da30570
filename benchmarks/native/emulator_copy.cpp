// The cost to queue an emulated copy of 4 bytes inside a device, and the time until it is done, through the C ABI.
//
// usage: emulator_copy LIBRARY CONFIG COPIES PASSES
// Prints two numbers per pass: nanoseconds of thread CPU time per copy to queue it, and nanoseconds on the wall clock
// per copy until all are done. benchmarks/emulator_queue.py makes figures of them.

#include <chrono>
#include <cstdio>
#include <string>

#include "driver/cuda_abi.hpp"
#include "loaded_library.hpp"

using namespace memlake::cuda;

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: emulator_copy LIBRARY CONFIG COPIES PASSES\n");
    return 2;
  }
  const LoadedLibrary library(argv[1]);
  const long copies = std::stol(argv[3]);
  const long passes = std::stol(argv[4]);

  auto* add_devices = library.find<int(const char*, int*, int*)>("memlakeEmulatorAddDevices");
  auto* init = library.find<CUresult(unsigned)>("cuInit");
  auto* retain = library.find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  auto* set_current = library.find<CUresult(CUcontext)>("cuCtxSetCurrent");
  auto* allocate = library.find<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2");
  auto* create = library.find<CUresult(CUstream*, unsigned)>("cuStreamCreate");
  auto* copy = library.find<CUresult(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>("cuMemcpyDtoDAsync_v2");
  auto* synchronize = library.find<CUresult(CUstream)>("cuStreamSynchronize");

  int device = 0;
  int count = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  expect_success(add_devices(argv[2], &device, &count), "memlakeEmulatorAddDevices");
  expect_success(init(0), "cuInit");
  expect_success(retain(&context, device), "cuDevicePrimaryCtxRetain");
  expect_success(set_current(context), "cuCtxSetCurrent");
  expect_success(allocate(&memory, 512), "cuMemAlloc");
  expect_success(create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (long pass = 0; pass < passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    const double start = thread_nanoseconds();
    for (long i = 0; i < copies; ++i) expect_success(copy(memory, memory + 256, 4, stream), "cuMemcpyDtoDAsync");
    const double queued = thread_nanoseconds() - start;
    expect_success(synchronize(stream), "cuStreamSynchronize");
    const std::chrono::duration<double, std::nano> done = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f %.1f\n", queued / static_cast<double>(copies), done.count() / static_cast<double>(copies));
  }
  return 0;
}
