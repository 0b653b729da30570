#include "origin.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

namespace memlake::emulator {

std::string Origin::caller_name() const {
  Dl_info info{};
  if (caller == nullptr || dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return "";
  const char* slash = std::strrchr(info.dli_fname, '/');
  std::ostringstream out;
  out << (slash != nullptr ? slash + 1 : info.dli_fname) << "+0x" << std::hex
      << static_cast<const char*>(caller) - static_cast<const char*>(info.dli_fbase);
  if (info.dli_sname != nullptr) out << " (" << info.dli_sname << ")";
  return out.str();
}

long this_thread_id() {
  static thread_local const long id = syscall(SYS_gettid);
  return id;
}

}  // namespace memlake::emulator
