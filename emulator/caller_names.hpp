#pragma once

// The names of the places that called the driver, looked up when the ledger is printed, because that is slow.
//
// The loader of libraries has a lock of its own. A thread can hold it and wait for ours: a library that calls the
// driver while it is being loaded. So names are never looked up with our lock held: what prints the ledger asks for
// them, and starts again when those it lacked are known.

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace memlake::emulator {

class CallerNames {
 public:
  /// "library+0xoffset (symbol)"; "" if nobody called, or if the name is not known yet and is lacking now.
  const std::string& of(const void* caller);

  [[nodiscard]] bool is_lacking() const { return !lacking_.empty(); }

  /// Looks up what was lacking, with the lock given up meanwhile.
  void look_up(std::unique_lock<std::mutex>& lock);

 private:
  std::map<const void*, std::string> names_ = {{nullptr, ""}};
  std::set<const void*> lacking_;
};

}  // namespace memlake::emulator
