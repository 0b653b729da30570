// Pools between processes, also when one of the two is killed.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <string>

#include "abi.hpp"

namespace memlake::test {

namespace {

constexpr int kPosix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemoryPool import_pool(int fd) {
  CUmemoryPool pool{};
  must(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return pool;
}

std::uint64_t import_pointer(CUmemoryPool pool, CUmemPoolPtrExportData data) {
  CUdeviceptr address = 0;
  must(cuMemPoolImportPointer(&address, pool, &data));
  return address;
}

int export_pool(CUmemoryPool pool) {
  int fd = -1;
  must(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return fd;
}

CUmemPoolPtrExportData export_pointer(std::uint64_t address) {
  CUmemPoolPtrExportData data{};
  must(cuMemPoolExportPointer(&data, address));
  return data;
}

unsigned char first_byte(std::uint64_t address) {
  unsigned char byte = 0;
  must(cuMemcpyDtoH_v2(&byte, address, 1));
  return byte;
}

/// Another process, forked before this one knows the driver, so that it may use it; it imports what comes through the
/// pipe, says so, and is killed at the end.
class Importer {
 public:
  Importer() {
    must(pipe(to_child_));
    must(pipe(to_parent_));
    child_ = fork();
    if (child_ == 0) run();
  }
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;
  ~Importer() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  /// Hands over; returns the first byte that the child sees.
  unsigned char import(int fd, const CUmemPoolPtrExportData& data) {
    // A child can open a descriptor of its parent through /proc.
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
    char text[64] = {};
    path.copy(text, sizeof text - 1);
    must(write(to_child_[1], text, sizeof text) == sizeof text ? 0 : 1);
    must(write(to_child_[1], &data, sizeof data) == sizeof data ? 0 : 1);
    unsigned char byte = 0;
    must(read(to_parent_[0], &byte, 1) == 1 ? 0 : 1);
    return byte;
  }

 private:
  [[noreturn]] void run() {
    char path[64] = {};
    CUmemPoolPtrExportData data{};
    if (read(to_child_[0], path, sizeof path) != sizeof path || read(to_child_[0], &data, sizeof data) != sizeof data)
      _exit(1);
    const World world("memory=256MiB");
    const int fd = open(path, O_RDWR);
    const unsigned char byte = first_byte(import_pointer(import_pool(fd), data));
    static_cast<void>(!write(to_parent_[1], &byte, 1));
    while (true) pause();
  }

  int to_child_[2] = {};
  int to_parent_[2] = {};
  pid_t child_ = 0;
};

}  // namespace

PROCESS_TEST(an_importer_in_the_same_process_sees_the_same_bytes_and_pays_nothing) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first, kPosix));
  const CUstream stream = new_stream();
  allocate(pool, 12, stream);
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  const int fd = export_pool(pool);
  const CUmemoryPool imported = import_pool(fd);
  close(fd);
  const std::uint64_t before = free_memory();
  const std::uint64_t view = import_pointer(imported, export_pointer(memory));
  const std::uint64_t again = import_pointer(imported, export_pointer(memory));
  EXPECT_EQ(free_memory(), before);
  must(cuMemsetD8Async(memory, 0x77, kMiB, stream));
  must(cuStreamSynchronize(stream));
  EXPECT_EQ(+first_byte(view), 0x77);
  EXPECT_EQ(+first_byte(again + kMiB - 1), 0x77);
  EXPECT_EQ(cuMemsetD8_v2(view + kMiB - 1, 1, 2), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("the importer must free it first"));
  must(cuMemFree_v2(view));
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
  must(cuMemFreeAsync(again, stream));
  must(cuMemFreeAsync(memory, stream));
  must(cuStreamSynchronize(stream));
  EXPECT_EQ(attribute(imported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
  // Once exported, nothing goes back before the pool does.
  EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
  must(cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
}

PROCESS_TEST(what_is_no_exported_pool_or_pointer_is_refused) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first, kPosix));
  const CUmemoryPool other = new_pool(pool_props(world.first, kPosix));
  const std::uint64_t memory = allocate(pool, kMiB, {});
  CUmemoryPool out{};
  const auto import = [&](std::intptr_t fd) {
    return cuMemPoolImportFromShareableHandle(&out, reinterpret_cast<void*>(fd),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  };
  int chunk = -1;
  must(cuMemExportToShareableHandle(&chunk, create(world.first, kGranule, kPosix),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  EXPECT_EQ(import(chunk), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("not an exported pool"));
  EXPECT_EQ(import(open("/dev/null", O_RDWR)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(import(reinterpret_cast<std::intptr_t>(&chunk)), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("by value"));
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(
      cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(export_pool(pool))),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      CUDA_ERROR_INVALID_VALUE);

  CUmemPoolPtrExportData data = export_pointer(memory);
  CUdeviceptr address = 77;
  EXPECT_EQ(cuMemPoolImportPointer(&address, pool, &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolImportPointer(&address, import_pool(export_pool(other)), &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("another pool"));
  data.reserved[0] ^= 1;
  EXPECT_EQ(cuMemPoolImportPointer(&address, import_pool(export_pool(pool)), &data), CUDA_ERROR_INVALID_VALUE);
  data = export_pointer(memory);
  for (int i = 24; i < 40; ++i) data.reserved[i] = 0xFF;  // offset and size
  EXPECT_EQ(cuMemPoolImportPointer(&address, import_pool(export_pool(pool)), &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(address, 77U);
  EXPECT_EQ(cuMemPoolExportPointer(&data, memory + 256), CUDA_ERROR_INVALID_VALUE);
}

PROCESS_TEST(another_process_that_is_killed_is_in_nobodys_way) {
  std::optional<Importer> importer(std::in_place);
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first, kPosix));
  const std::uint64_t memory = allocate(pool, kMiB, {});
  must(cuMemsetD8_v2(memory, 0x42, kMiB));
  must(cuCtxSynchronize());
  EXPECT_EQ(+importer->import(export_pool(pool), export_pointer(memory)), 0x42);
  EXPECT_EQ(cuMemFreeAsync(memory, {}), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("still imported"));
  importer.reset();  // kill -9
  must(cuMemFreeAsync(memory, {}));
}

PROCESS_TEST(imports_and_exports_leave_no_descriptor_behind) {
  const World world("memory=256MiB");
  const CUmemoryPool pool = new_pool(pool_props(world.first, kPosix));
  const std::uint64_t memory = allocate(pool, kMiB, {});
  const auto round = [&] {
    const int fd = export_pool(pool);
    const CUmemoryPool imported = import_pool(fd);
    const std::uint64_t view = import_pointer(imported, export_pointer(memory));
    must(cuMemPoolDestroy(imported));  // ends with the view
    must(cuMemFree_v2(view));
    close(fd);
  };
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  round();
  const auto before = descriptors();
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(descriptors(), before);
}

PROCESS_TEST(the_nvidia_profile_runs_a_copy_that_was_queued_before_its_imported_memory_was_freed) {
  const World world("memory=256MiB,profile=nvidia,streams=manual");
  const CUstream stream = new_stream();
  const CUmemoryPool pool = new_pool(pool_props(world.first, kPosix));
  const std::uint64_t memory = allocate(pool, kMiB, stream);
  const CUmemoryPool imported = import_pool(export_pool(pool));
  for (const bool is_in_order : {true, false}) {
    const std::uint64_t address = import_pointer(imported, export_pointer(memory));
    must(cuMemsetD8Async(address, is_in_order ? 7 : 8, kMiB, stream));
    if (is_in_order) {
      must(cuMemFreeAsync(address, new_stream()));
    } else {
      must(cuMemFree_v2(address));
    }
    EXPECT_EQ(cuMemsetD8Async(address, 9, kMiB, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(first_byte(memory), is_in_order ? 7 : 8);
  }
  EXPECT_EQ(attribute(imported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
}

}  // namespace memlake::test
