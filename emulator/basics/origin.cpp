#include "basics/origin.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "basics/this_thread.hpp"

namespace memlake::emulator {

long this_thread_id() {
  if (this_thread.id == 0) this_thread.id = syscall(SYS_gettid);
  return this_thread.id;
}

}  // namespace memlake::emulator
