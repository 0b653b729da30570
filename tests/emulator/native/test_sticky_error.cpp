// Work that fails for good: the context is lost, and every call on it says so until it ends.

#include "abi.hpp"

namespace memlake::test {

namespace {

/// Lets a kernel write where it may not.
void fail_on(CUstream stream, std::uint64_t address) {
  const memlakeEmulatorRange range{address, 512, 1};
  must(memlakeEmulatorLaunch(stream, "bad kernel", &range, 1));
}

/// A mapping that nobody may touch.
std::uint64_t closed_mapping(const World& world) {
  const std::uint64_t address = new_mapping(world.first);
  set_access(address, kGranule, access_desc(world.first, 0));
  return address;
}

}  // namespace

PROCESS_TEST(a_kernel_without_access_loses_its_context_and_every_call_on_it_says_so) {
  const World world;
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  void* pinned = nullptr;
  CUdeviceptr memory = 0;
  must(cuMemHostAlloc(&pinned, 4096, 0));
  must(cuMemAlloc_v2(&memory, 4096));
  fail_on(stream, closed_mapping(world));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(error_says("until it is destroyed"));
  std::size_t bytes = 0;
  CUdeviceptr more = 0;
  CUstream other{};
  CUevent second{};
  CUdevice device = 0;
  for (const CUresult answer :
       {cuStreamQuery(stream), cuStreamDestroy_v2(stream), cuStreamCreate(&other, 0), cuEventQuery(event),
        cuEventSynchronize(event), cuEventRecord(event, stream), cuEventDestroy_v2(event), cuEventCreate(&second, 0),
        cuCtxSynchronize(), cuCtxGetDevice(&device), cuMemGetInfo_v2(&bytes, &bytes), cuMemAlloc_v2(&more, 512),
        cuMemFree_v2(memory), cuMemFreeHost(pinned), cuMemsetD8_v2(memory, 0, 16), cuMemcpyHtoD_v2(memory, &bytes, 8)})
    EXPECT_EQ(answer, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(more, 0U);
  const CUmemAllocationProp prop = device_prop(world.first);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
}

PROCESS_TEST(a_lost_context_is_left_by_ending_it) {
  const World world;
  const std::uint64_t address = closed_mapping(world);
  fail_on(nullptr, address);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  must(cuDevicePrimaryCtxReset_v2(world.first));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext fresh{};
  must(cuDevicePrimaryCtxRetain(&fresh, world.first));
  must(cuCtxSetCurrent(fresh));
  must(cuCtxSynchronize());
  set_access(address, kGranule, access_desc(world.first));  // virtual memory is no context's: it is still there
  must(cuMemsetD8_v2(address, 1, 512));
  must(cuCtxSynchronize());
}

PROCESS_TEST(work_behind_the_failure_does_not_run) {
  const World world("memory=256MiB,streams=manual");
  const CUstream stream = new_stream();
  fail_on(stream, closed_mapping(world));
  static bool has_run = false;
  must(cuLaunchHostFunc(stream, [](void*) { has_run = true; }, nullptr));
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(!has_run);
}

PROCESS_TEST(a_copy_that_waited_for_failing_work_answers_the_failure) {
  const World world("memory=256MiB,streams=manual");
  const std::uint64_t good = new_mapping(world.first);
  fail_on(nullptr, closed_mapping(world));
  char bytes[8] = "old";
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, good, sizeof bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(std::string(bytes), "old");
}

PROCESS_TEST(memory_that_waited_for_failing_work_is_not_freed) {
  const World world("memory=256MiB,streams=manual");
  CUdeviceptr memory = 0;
  must(cuMemAlloc_v2(&memory, 4096));
  fail_on(nullptr, closed_mapping(world));
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(ledger().find("\"address\":" + std::to_string(memory)) != std::string::npos);
}

PROCESS_TEST(other_devices_and_other_contexts_are_not_lost) {
  const World world("devices=2,memory=256MiB");
  fail_on(nullptr, closed_mapping(world));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext second{};
  must(cuCtxCreate_v2(&second, 0, world.first));
  must(cuCtxSynchronize());
  must(cuCtxDestroy_v2(second));
  world.use(1);
  must(cuCtxSynchronize());
}

PROCESS_TEST(a_kernel_reaches_plain_memory_of_a_peer_only_when_it_was_enabled) {
  const World world("devices=2,memory=256MiB");
  CUdeviceptr memory = 0;
  must(cuMemAlloc_v2(&memory, 4096));
  world.use(1);
  must(cuCtxEnablePeerAccess(world.contexts[0], 0));
  fail_on(nullptr, memory);
  must(cuCtxSynchronize());
  must(cuCtxDisablePeerAccess(world.contexts[0]));
  fail_on(nullptr, memory);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

PROCESS_TEST(a_kernel_that_leaves_its_memory_or_wraps_around_fails) {
  for (const memlakeEmulatorRange bad : {memlakeEmulatorRange{0, kGranule + 1, 0}, {0, UINT64_MAX, 0}}) {
    const World world;
    const std::uint64_t address = new_mapping(world.first);
    const memlakeEmulatorRange range{address + bad.address, bad.size, 0};
    must(memlakeEmulatorLaunch(nullptr, "long kernel", &range, 1));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

}  // namespace memlake::test
