#include "vmm/descriptor.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace memlake {

Descriptor::Descriptor(int fd) noexcept : fd_(fd) {
  if (fd_ != kNone) fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

Descriptor::~Descriptor() {
  if (fd_ != kNone) close(fd_);
}

}  // namespace memlake
