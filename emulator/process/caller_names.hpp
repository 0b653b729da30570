#pragma once

// The names of the code locations that called the driver. They are looked up when the ledger is printed, because a
// lookup is slow.
//
// The dynamic loader has its own lock. A library that calls the driver from its initialiser holds that lock and waits
// for the driver's lock. A lookup takes the loader's lock, so it must not run under the driver's lock. The printer of
// the ledger therefore collects the missing names, looks them up without the lock, and starts again.

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace memlake::emulator {

class CallerNames {
 public:
  /// "library+0xoffset (symbol)". Returns "" for a null caller. Returns "" and notes the name as lacking if it is not
  /// known yet.
  const std::string& of(const void* caller);

  [[nodiscard]] bool is_lacking() const { return !lacking_.empty(); }

  /// Looks up the lacking names. Releases the lock during the lookup.
  void look_up(std::unique_lock<std::mutex>& lock);

 private:
  std::map<const void*, std::string> names_ = {{nullptr, ""}};
  std::set<const void*> lacking_;
};

}  // namespace memlake::emulator
