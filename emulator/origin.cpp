#include "origin.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace memlake::emulator {

long this_thread_id() {
  static thread_local const long id = syscall(SYS_gettid);
  return id;
}

}  // namespace memlake::emulator
