#pragma once

// What this process's own code may do at an address, and what is there: asked from the kernel, without touching it.

#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

namespace memlake::test {

/// As CUmemAccess_flags: 0 nothing, 1 read, 3 read and write. A byte that can be written is written back.
inline unsigned cpu_access(std::uint64_t address) {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{reinterpret_cast<void*>(address), 1};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) return 0;
  return process_vm_writev(getpid(), &here, 1, &there, 1, 0) == 1 ? 3 : 1;
}

/// The byte there; 0 where it cannot be read.
inline unsigned char peek(std::uint64_t address) {
  unsigned char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{reinterpret_cast<void*>(address), 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 ? byte : 0;
}

}  // namespace memlake::test
