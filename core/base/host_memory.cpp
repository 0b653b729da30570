#include "base/host_memory.hpp"

#include <unistd.h>

namespace memlake {

namespace {

Bytes pages(int name) noexcept {
  const long count = sysconf(name);
  const long size = sysconf(_SC_PAGESIZE);
  return {count > 0 && size > 0 ? static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size) : 0};
}

}  // namespace

Bytes host_memory() noexcept { return pages(_SC_PHYS_PAGES); }

Bytes free_host_memory() noexcept { return pages(_SC_AVPHYS_PAGES); }

}  // namespace memlake
