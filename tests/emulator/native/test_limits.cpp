// The limits of the system: refused with a sentence, nothing lost, and what is there can be undone.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "abi.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::test {

namespace {

void lower(decltype(RLIMIT_NOFILE) resource, rlim_t to) {
  const rlimit limit{to, to};
  if (setrlimit(resource, &limit) != 0) throw std::runtime_error("the limit cannot be lowered");
}

std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

}  // namespace

PROCESS_TEST(exportable_chunks_are_refused_before_the_program_has_no_descriptor_left) {
  lower(RLIMIT_NOFILE, 256);
  const World world("memory=4GiB");
  must(cuMemRelease(create(world.first, kGranule)));
  const std::uint64_t before = free_memory();
  const std::ptrdiff_t files = open_files();
  const CUmemAllocationProp prop = device_prop(world.first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  std::vector<CUmemGenericAllocationHandle> handles;
  CUmemGenericAllocationHandle handle = 0;
  CUresult answer = CUDA_SUCCESS;
  while ((answer = cuMemCreate(&handle, kGranule, &prop, 0)) == CUDA_SUCCESS) handles.push_back(handle);
  EXPECT_EQ(answer, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(error_says("ulimit -n"));
  EXPECT(handles.size() > 100 && handles.size() < 200);
  int exported = -7;
  EXPECT_EQ(cuMemExportToShareableHandle(&exported, handles[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(exported, -7);
  const int own = dup(0);
  EXPECT(own >= 0);  // the program still can
  close(own);
  EXPECT_EQ(before - free_memory(), handles.size() * kGranule);
  must(cuMemRelease(create(world.first, kGranule)));  // an ordinary chunk needs no file of its own
  for (const auto made : handles) must(cuMemRelease(made));
  EXPECT_EQ(free_memory(), before);
  EXPECT_EQ(open_files(), files);
}

PROCESS_TEST(a_limit_of_file_lengths_is_a_refusal_and_not_the_end_of_the_process) {
  const World world("memory=64MiB");
  lower(RLIMIT_FSIZE, kMiB);
  const CUmemAllocationProp props[] = {device_prop(world.first),
                                       device_prop(world.first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)};
  for (const auto& prop : props) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(error_says("ulimit -f"));
  }
}

PROCESS_TEST(small_mappings_are_refused_before_the_kernel_has_none_left_and_all_can_be_undone) {
  const World world("memory=16GiB,granularity=64KiB");
  constexpr std::uint64_t piece = 64 << 10;
  const std::size_t most = emulator::most_mappings();
  const std::uint64_t address = reserve(most * 2 * piece);
  const std::uint64_t handle = create(world.first, piece);
  std::size_t count = 0;
  CUresult answer = CUDA_SUCCESS;
  while (count < most && answer == CUDA_SUCCESS) {
    answer = cuMemMap(address + 2 * count * piece, piece, 0, handle, 0);
    if (answer == CUDA_SUCCESS) ++count;
  }
  EXPECT_EQ(answer, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(error_says("vm.max_map_count"));
  for (std::size_t i = 0; i < count; i += 100) set_access(address + 2 * i * piece, piece, access_desc(world.first));
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc_v2(&memory, 4 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  for (std::size_t i = 0; i < count; ++i) must(cuMemUnmap(address + 2 * i * piece, piece));
  must(cuMemAlloc_v2(&memory, 4 * kMiB));
  must(cuMemFree_v2(memory));
  must(cuMemRelease(handle));
  must(cuMemAddressFree(address, most * 2 * piece));
  EXPECT_EQ(free_memory(), std::uint64_t{16} << 30);
}

PROCESS_TEST(the_soft_limit_of_descriptors_is_raised_to_the_hard_one) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 100;
  setrlimit(RLIMIT_NOFILE, &limit);
  const World world("memory=64MiB");
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

PROCESS_TEST(ten_thousand_rounds_leave_no_file_and_no_mapping_behind) {
  const World world("memory=64MiB");
  const std::uint64_t address = reserve(kGranule);
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
      if (line.find("memfd:memlake") != std::string::npos) ++count;
    return count;
  };
  for (int i = 0; i < 10000; ++i) {
    const int types = i % 2 == 0 ? 0 : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const std::uint64_t handle = create(world.first, kGranule, types);
    must(cuMemMap(address, kGranule, 0, handle, 0));
    set_access(address, kGranule, access_desc(world.first));
    must(cuMemRelease(handle));
    must(cuMemUnmap(address, kGranule));
  }
  EXPECT_EQ(mappings(), 0U);
  EXPECT(open_files() < 20);
  EXPECT_EQ(free_memory(), 64 * kMiB);
}

// Sanitizers need descriptors and address space of their own while the program runs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

PROCESS_TEST(a_system_that_gives_no_descriptor_at_all_is_told_apart_from_a_full_device) {
  const World world("memory=64MiB");
  lower(RLIMIT_NOFILE, 3);
  const CUmemAllocationProp prop = device_prop(world.first);
  CUmemGenericAllocationHandle handle = 77;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(error_says("the system gave no file"));
  CUdeviceptr memory = 77;
  EXPECT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&memory, 4 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 77U);
  EXPECT_EQ(memory, 77U);
  EXPECT_EQ(free_memory(), 64 * kMiB);
}

PROCESS_TEST(a_stream_for_which_the_system_gives_no_thread_refuses_its_work) {
  const World world;
  const CUstream stream = new_stream();
  // Not more address space than there is: a thread needs some for its stack.
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit{pages * host_page(), RLIM_INFINITY};
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  setrlimit(RLIMIT_AS, &limit);
  const CUresult answer = cuLaunchHostFunc(stream, [](void*) {}, nullptr);
  const bool is_explained = error_says("the system gives no thread");
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(answer, CUDA_ERROR_OPERATING_SYSTEM);
  EXPECT(is_explained);
  EXPECT_EQ(pending(stream), 0U);
  must(cuLaunchHostFunc(stream, [](void*) {}, nullptr));
  must(cuStreamSynchronize(stream));
}

#endif

}  // namespace memlake::test
