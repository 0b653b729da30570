// The cost to queue the launch of a kernel that the emulator skips, and the time until it is done, through the C ABI.
//
// usage: emulator_launch LIBRARY CONFIG LAUNCHES PASSES
// Prints two numbers per pass: nanoseconds of thread CPU time per launch to queue it, and nanoseconds on the wall clock
// per launch until all are done. benchmarks/emulator_queue.py makes figures of them.

#include <chrono>
#include <cstdio>
#include <string>

#include "driver/cuda_abi.hpp"
#include "loaded_library.hpp"

using namespace memlake::cuda;

constexpr char kImage[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 a, .param .u32 b)\n{\nret;\n}\n";

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: emulator_launch LIBRARY CONFIG LAUNCHES PASSES\n");
    return 2;
  }
  const LoadedLibrary library(argv[1]);
  const long launches = std::stol(argv[3]);
  const long passes = std::stol(argv[4]);

  auto* add_devices = library.find<int(const char*, int*, int*)>("memlakeEmulatorAddDevices");
  auto* init = library.find<CUresult(unsigned)>("cuInit");
  auto* retain = library.find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  auto* set_current = library.find<CUresult(CUcontext)>("cuCtxSetCurrent");
  auto* load = library.find<CUresult(CUmodule*, const void*)>("cuModuleLoadData");
  auto* get_function = library.find<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
  auto* create = library.find<CUresult(CUstream*, unsigned)>("cuStreamCreate");
  auto* launch = library.find<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                       CUstream, void**, void**)>("cuLaunchKernel");
  auto* synchronize = library.find<CUresult(CUstream)>("cuStreamSynchronize");

  int device = 0;
  int count = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  expect_success(add_devices(argv[2], &device, &count), "memlakeEmulatorAddDevices");
  expect_success(init(0), "cuInit");
  expect_success(retain(&context, device), "cuDevicePrimaryCtxRetain");
  expect_success(set_current(context), "cuCtxSetCurrent");
  expect_success(load(&module, kImage), "cuModuleLoadData");
  expect_success(get_function(&kernel, module, "kernel"), "cuModuleGetFunction");
  expect_success(create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  CUdeviceptr address = 0;
  unsigned number = 0;
  void* parameters[] = {&address, &number};
  for (long pass = 0; pass < passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    const double start = thread_nanoseconds();
    for (long i = 0; i < launches; ++i)
      expect_success(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
    const double queued = thread_nanoseconds() - start;
    expect_success(synchronize(stream), "cuStreamSynchronize");
    const std::chrono::duration<double, std::nano> done = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f %.1f\n", queued / static_cast<double>(launches), done.count() / static_cast<double>(launches));
  }
  return 0;
}
