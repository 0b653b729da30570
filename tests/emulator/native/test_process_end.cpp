// Processes that fork, exit or end in the middle of work.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "abi.hpp"

namespace memlake::test {

namespace {

void spin(void* data) {
  const auto* may_end = static_cast<std::atomic<bool>*>(data);
  while (!*may_end) std::this_thread::yield();
}

/// Calls the driver when it is destroyed, as a global of a program does.
struct LateCaller {
  CUdeviceptr memory = 0;
  bool is_before_cu_init = false;

  ~LateCaller() {
    CUdeviceptr more = 0;
    const CUresult answer = cuMemFree_v2(memory);
    const CUresult other = cuMemAlloc_v2(&more, 0);
    const std::string why = memlakeEmulatorLastError();
    const CUresult expected = is_before_cu_init ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
    if (answer != expected || other == CUDA_SUCCESS || why.empty()) std::_Exit(42);
  }
};

}  // namespace

PROCESS_TEST(a_child_of_an_initialised_process_is_refused_and_the_parent_goes_on) {
  const World world;
  const std::uint64_t memory = new_mapping(world.first);
  const CUstream stream = new_stream();
  std::atomic<bool> may_end = false;
  must(cuLaunchHostFunc(stream, spin, &may_end));  // a worker is busy while the process forks
  const Ended child = run_in_child([&] {
    std::size_t bytes = 0;
    const char* name = nullptr;
    EXPECT_EQ(cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(memlakeEmulatorLedger(nullptr, &bytes), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(error_says("spawn"));
    EXPECT_EQ(cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name), CUDA_SUCCESS);
  });
  EXPECT_EQ(child, Ended({0, 0}));
  may_end = true;
  must(cuStreamSynchronize(stream));
  must(cuMemsetD8_v2(memory, 1, kGranule));
}

PROCESS_TEST(many_forks_while_other_threads_call_the_driver_never_hang) {
  const World world("memory=64MiB,backing=none");
  std::atomic<bool> may_end = false;
  std::thread other([&] {
    world.use(0);
    while (!may_end) free_memory();
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(run_in_child([] { EXPECT_EQ(cuCtxSynchronize(), 3); }), Ended({0, 0}));
  may_end = true;
  other.join();
}

PROCESS_TEST(a_child_of_a_process_that_only_added_devices_has_memory_of_its_own) {
  int first = 0;
  int count = 0;
  must(memlakeEmulatorAddDevices("memory=64MiB", &first, &count));
  const auto use_it = [&](unsigned char value) {
    must(cuInit(0));
    CUcontext context{};
    must(cuDevicePrimaryCtxRetain(&context, first));
    must(cuCtxSetCurrent(context));
    const std::uint64_t memory = new_mapping(first);
    must(cuMemsetD8_v2(memory, value, kGranule));
    must(cuCtxSynchronize());
    return memory;
  };
  int ends[2];
  must(pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    use_it(0x22);
    static_cast<void>(!write(ends[1], "x", 1));
    pause();
  }
  const std::uint64_t memory = use_it(0x11);
  unsigned char byte = 0;
  must(read(ends[0], &byte, 1) == 1 ? 0 : 1);
  must(cuMemcpyDtoH_v2(&byte, memory, 1));
  EXPECT_EQ(+byte, 0x11);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

PROCESS_TEST(the_process_may_exit_while_streams_are_busy_and_gates_are_shut) {
  static std::atomic<bool> never = false;
  const World world("memory=1GiB");
  constexpr std::uint64_t size = 256 * kMiB;
  const std::uint64_t memory = new_mapping(world.first, size);
  must(cuLaunchHostFunc(new_stream(), spin, &never));
  hold(new_stream());
  must(cuMemsetD8Async(memory, 1, size, new_stream()));
  std::thread([] { cuCtxSynchronize(); }).detach();
  // The child leaves through exit() now.
}

PROCESS_TEST(destructors_of_globals_may_call_the_driver) {
  static LateCaller before{.is_before_cu_init = true};
  const World world("memory=64MiB");
  static LateCaller after;
  must(cuMemAlloc_v2(&before.memory, 4096));
  must(cuMemAlloc_v2(&after.memory, 4096));
  EXPECT_EQ(cuMemFree_v2(1), CUDA_ERROR_INVALID_VALUE);  // leaves a sentence, which must not be freed too early
}

PROCESS_TEST(a_thread_may_end_inside_the_emulators_reach_in_any_order) {
  const World world("memory=64MiB,backing=none");
  for (int i = 0; i < 50; ++i)
    std::thread([&] {
      static thread_local struct Late {
        ~Late() {
          if (cuMemFree_v2(1) == CUDA_SUCCESS) std::_Exit(43);
        }
      } late;
      static_cast<void>(&late);
      world.use(0);
      EXPECT_EQ(cuMemFree_v2(1), CUDA_ERROR_INVALID_VALUE);
    }).join();
}

TEST(a_ledger_is_written_at_exit_by_the_process_that_asked_for_it_and_not_by_its_children) {
  char path[] = "memlake-ledger-XXXXXX";
  close(mkstemp(path));
  in_own_process([&] {
    const World world("memory=64MiB,backing=none,ledger=" + std::string(path));
    EXPECT_EQ(run_in_child([] {}), Ended({0, 0}));
    std::ifstream file(path);
    EXPECT_EQ(file.peek(), std::ifstream::traits_type::eof());
    new_mapping(world.first);
  });
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT(text.starts_with("{\"devices\":[{\"ordinal\":0,"));
  EXPECT(text.find("\"call\":\"cuMemMap\"") != std::string::npos);
  unlink(path);
}

}  // namespace memlake::test
