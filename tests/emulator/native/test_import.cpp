// Memory that goes to another process, or to one that dies, and descriptors that are something else.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "abi.hpp"
#include "system/shareable.hpp"

namespace memlake::test {

namespace {

constexpr auto kPosix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

int export_of(std::uint64_t handle) {
  int fd = -1;
  must(cuMemExportToShareableHandle(&fd, handle, kPosix, 0));
  return fd;
}

CUresult import(std::intptr_t fd, CUmemGenericAllocationHandle& handle) {
  return cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(fd), kPosix);
}

/// A sealed memfd with a header of its own making.
int forged_file(std::uint64_t size, int device) {
  Identity identity{};
  CUmemAllocationProp prop = device_prop(device, kPosix);
  return emulator::make_shareable_file(emulator::Shared::chunk, device, size, prop, identity);
}

}  // namespace

PROCESS_TEST(what_is_not_exported_memory_is_refused_and_nothing_is_taken) {
  const World world("memory=64MiB");
  int ends[2];
  must(pipe(ends));
  const int here = open(".", O_RDONLY | O_DIRECTORY);
  const int memfd = memfd_create("other", MFD_ALLOW_SEALING);
  must(ftruncate(memfd, static_cast<off_t>(kGranule + 4096)));
  CUmemGenericAllocationHandle handle = 77;
  int good = 5;
  for (const std::intptr_t fd : {std::intptr_t{-1}, std::intptr_t{0}, std::intptr_t{12345}, std::intptr_t{ends[0]},
                                 std::intptr_t{here}, std::intptr_t{memfd}, reinterpret_cast<std::intptr_t>(&good)}) {
    EXPECT_EQ(import(fd, handle), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(handle, 77U);
  }
  EXPECT(error_says("by value"));
  EXPECT_EQ(free_memory(), 64 * kMiB);
}

PROCESS_TEST(a_believable_header_of_an_impossible_size_or_device_is_refused) {
  const World world("memory=64MiB");
  CUmemGenericAllocationHandle handle = 77;
  EXPECT_EQ(import(forged_file(128 * kMiB, world.first), handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("not possible here"));
  EXPECT_EQ(import(forged_file(std::uint64_t{1} << 60, world.first), handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(import(forged_file(kGranule + 4096, world.first), handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(import(forged_file(kGranule, 99), handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("device 99"));
  EXPECT_EQ(handle, 77U);
  EXPECT_EQ(free_memory(), 64 * kMiB);
  must(import(forged_file(kGranule, world.first), handle));
  must(cuMemRelease(handle));
}

PROCESS_TEST(memory_comes_back_when_every_descriptor_is_closed_in_any_order) {
  const World world("memory=64MiB");
  const std::uint64_t handle = create(world.first, kGranule, kPosix);
  const int first = export_of(handle);
  const int second = export_of(handle);
  CUmemGenericAllocationHandle imported = 0;
  must(import(first, imported));
  EXPECT(imported != handle);
  must(cuMemRelease(handle));
  close(first);
  EXPECT_EQ(free_memory(), 64 * kMiB - kGranule);
  must(cuMemRelease(imported));
  EXPECT_EQ(free_memory(), 64 * kMiB - kGranule);
  must(import(second, imported));  // it was only waiting for its last descriptor
  must(cuMemRelease(imported));
  close(second);
  EXPECT_EQ(free_memory(), 64 * kMiB);
}

PROCESS_TEST(memory_comes_back_when_a_process_that_has_it_dies) {
  const World world("memory=64MiB");
  const std::uint64_t handle = create(world.first, kGranule, kPosix);
  const int fd = export_of(handle);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  close(fd);
  must(cuMemRelease(handle));
  EXPECT_EQ(free_memory(), 64 * kMiB - kGranule);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(free_memory(), 64 * kMiB);
}

}  // namespace memlake::test
