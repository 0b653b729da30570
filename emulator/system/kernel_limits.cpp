#include "system/kernel_limits.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

constexpr std::size_t kUsualMapCount = 65530;  // the kernel's default
constexpr int kDescriptorsForTheProgram = 64;

template <class Resource>
rlim_t soft_limit(Resource resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

std::uint64_t host_page() {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return page;
}

std::size_t most_mappings() {
  static const std::size_t most = [] {
    std::size_t count = kUsualMapCount;
    std::ifstream("/proc/sys/vm/max_map_count") >> count;
    return (count == 0 ? kUsualMapCount : count) / 10 * 9;
  }();
  return most;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // if the system refuses, the lower limit is guarded below
}

int guarded_descriptor(int fd) {
  if (fd < 0)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system gave no file for device memory: ", std::strerror(errno),
           " (each exportable chunk takes one open file; see ulimit -n)");
  const rlim_t limit = soft_limit(RLIMIT_NOFILE);
  if (limit == RLIM_INFINITY || static_cast<rlim_t>(fd) + kDescriptorsForTheProgram < limit) return fd;
  close(fd);
  refuse(CUDA_ERROR_OUT_OF_MEMORY, "this process is about to reach its limit of ", limit,
         " open files; each exportable chunk and each exported handle takes one (raise ulimit -n, or export less)");
}

void check_file_length(std::uint64_t length) {
  const rlim_t limit = soft_limit(RLIMIT_FSIZE);
  if (limit == RLIM_INFINITY || length <= limit) return;
  refuse(CUDA_ERROR_OUT_OF_MEMORY, "device memory lies in a file of ", length,
         " bytes, and this process may make files ", "of ", limit, " at most (raise ulimit -f, or use backing=none)");
}

}  // namespace memlake::emulator
