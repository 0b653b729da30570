#include "process/caller_names.hpp"

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "basics/sentence.hpp"

namespace memlake::emulator {

namespace {

std::string name_of_place(const void* place) {
  Dl_info info{};
  if (dladdr(place, &info) == 0 || info.dli_fname == nullptr) return "";
  const char* slash = std::strrchr(info.dli_fname, '/');
  const auto offset = reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  const std::string in_file = text(slash != nullptr ? slash + 1 : info.dli_fname, "+", Hex{offset});
  return info.dli_sname == nullptr ? in_file : text(in_file, " (", info.dli_sname, ")");
}

}  // namespace

const std::string& CallerNames::of(const void* caller) {
  const auto found = names_.find(caller);
  if (found != names_.end()) return found->second;
  lacking_.insert(caller);
  return names_.at(nullptr);
}

void CallerNames::look_up(std::unique_lock<std::mutex>& lock) {
  const std::set<const void*> wanted = std::exchange(lacking_, {});
  std::map<const void*, std::string> found;
  lock.unlock();
  for (const void* caller : wanted) found.emplace(caller, name_of_place(caller));
  lock.lock();
  names_.merge(found);
}

}  // namespace memlake::emulator
