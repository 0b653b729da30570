// Contexts and devices: their counts, their ends, and what is answered afterwards.

#include <climits>

#include "abi.hpp"

namespace memlake::test {

PROCESS_TEST(a_reset_keeps_the_count_of_retains) {
  const World world;
  CUcontext again{};
  must(cuDevicePrimaryCtxRetain(&again, world.first));
  must(cuDevicePrimaryCtxReset_v2(world.first));
  unsigned flags = 0;
  int is_active = 1;
  must(cuDevicePrimaryCtxGetState(world.first, &flags, &is_active));
  EXPECT_EQ(is_active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(world.first), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(world.first), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(world.first), CUDA_ERROR_INVALID_CONTEXT);
}

PROCESS_TEST(the_current_contexts_are_a_stack_of_each_thread) {
  const World world("devices=2,memory=64MiB");
  CUdevice device = -1;
  must(cuCtxPushCurrent_v2(world.contexts[1]));
  must(cuCtxGetDevice(&device));
  EXPECT_EQ(device, world.first + 1);
  CUcontext popped{};
  must(cuCtxPopCurrent_v2(&popped));
  EXPECT(popped == world.contexts[1]);
  must(cuCtxGetDevice(&device));
  EXPECT_EQ(device, world.first);
  must(cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)), CUDA_ERROR_INVALID_CONTEXT);
}

PROCESS_TEST(a_context_takes_its_allocations_with_it) {
  const World world;
  const std::uint64_t before = free_memory();
  CUcontext context{};
  must(cuCtxCreate_v2(&context, 0, world.first));
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  void* pinned = nullptr;
  must(cuMemAlloc_v2(&small, 700));
  must(cuMemAlloc_v2(&large, 5 * kMiB));
  must(cuMemHostAlloc(&pinned, 4096, 0));
  must(cuCtxDestroy_v2(context));
  EXPECT_EQ(free_memory(), before);
  EXPECT_EQ(cuMemFree_v2(small), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

PROCESS_TEST(closing_devices_that_do_not_all_exist_closes_none) {
  const World world("devices=2,memory=64MiB,backing=none");
  const int first = world.first;
  const int cases[][2] = {{first, 3}, {-1, 2}, {first + 1, INT_MAX}, {INT_MAX, INT_MAX}, {INT_MIN, INT_MAX}};
  for (const auto& [from, count] : cases)
    EXPECT_EQ(memlakeEmulatorCloseDevices(from, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(memlakeEmulatorCloseDevices(first, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memlakeEmulatorCloseDevices(first, -1), CUDA_ERROR_INVALID_VALUE);
  must(cuCtxSynchronize());
  must(memlakeEmulatorCloseDevices(first, 2));
  EXPECT_EQ(memlakeEmulatorCloseDevices(first, 1), CUDA_ERROR_INVALID_DEVICE);
}

PROCESS_TEST(a_closed_device_answers_101_and_what_it_had_is_gone) {
  const World world("devices=2,memory=64MiB");
  const std::uint64_t mapped = new_mapping(world.first);
  const std::uint64_t handle = create(world.first, kGranule);
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  must(memlakeEmulatorCloseDevices(world.first, 1));
  std::size_t bytes = 0;
  CUcontext context{};
  EXPECT_EQ(cuDeviceTotalMem_v2(&bytes, world.first), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, world.first), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(world.first), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(mapped, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(std::string(memlakeEmulatorLastViolation()), "");  // late clean-up is nobody's fault
  must(cuMemAddressFree(mapped, kGranule));                    // addresses are no device's
  EXPECT(ledger().find("\"chunks\":[],\"mappings\":[]") != std::string::npos);
}

PROCESS_TEST(a_driver_version_is_changed_only_with_devices_that_are_made) {
  const World world("memory=64MiB,backing=none");
  int first = 0;
  int count = 0;
  EXPECT_EQ(memlakeEmulatorAddDevices("driver=12000", &first, &count), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("driver=12000"));
  must(memlakeEmulatorCloseDevices(world.first, 1));
  EXPECT_EQ(memlakeEmulatorAddDevices("driver=12000,memory=1", &first, &count), CUDA_ERROR_INVALID_VALUE);
  int version = 0;
  must(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 13000);
  must(memlakeEmulatorAddDevices("driver=12000,memory=64MiB,backing=none", &first, &count));
  must(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 12000);
}

}  // namespace memlake::test
