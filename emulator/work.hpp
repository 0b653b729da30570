#pragma once

// Work that was given to a stream and is not finished: what it touches, what it waits for, and the list of all of it,
// which is asked before memory is taken away.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "clock.hpp"
#include "origin.hpp"

namespace memlake::emulator {

struct Stream;

/// A range of memory that a piece of work reads or writes.
struct Touch {
  std::uint64_t address;
  std::uint64_t size;
  bool is_write;

  [[nodiscard]] bool overlaps(std::uint64_t other, std::uint64_t other_size) const {
    return address < other + other_size && other < address + size;
  }
};

/// Becomes done once; events and waits share it, so a re-recorded event does not disturb earlier waits.
struct Completion {
  Stream* stream = nullptr;  ///< whose work completes it; null once done
  bool is_done = false;
  double milliseconds = 0;  ///< when, on the process's clock

  void finish();
};
using CompletionRef = std::shared_ptr<Completion>;

inline bool is_pending(const CompletionRef& completion) { return completion != nullptr && !completion->is_done; }

struct Work {
  std::string name;  ///< what a person calls it: "cuMemcpyHtoDAsync of 4096 bytes"
  Origin origin;
  std::vector<Touch> touches = {};
  /// Runs without the driver's lock. Empty for pure waits and gates.
  std::function<void()> body = {};
  /// Asked under the lock just before it runs: "" or why the device may not do this (its context then fails, sticky).
  std::function<std::string()> check = {};
  std::vector<CompletionRef> waits = {};
  std::uint64_t gate = 0;  ///< not 0: does not run before this gate is opened
  CompletionRef completion = std::make_shared<Completion>();
  /// Called under the lock when it is finished, whether it ran or was dropped. Must not throw.
  std::function<void()> at_end = {};
  bool is_running = false;
  std::uint64_t stream = 0;    ///< whose work it is, and
  std::uint64_t position = 0;  ///< the how-manyth operation of that stream

  [[nodiscard]] std::string describe() const;
};

/// All unfinished work of the process, in the order it was queued.
class InFlight {
 public:
  using Place = std::list<const Work*>::iterator;

  Place add(const Work& work) { return all_.insert(all_.end(), &work); }
  void remove(Place place) { all_.erase(place); }
  [[nodiscard]] bool is_empty() const { return all_.empty(); }

  /// The first unfinished work that touches the range; null if there is none.
  [[nodiscard]] const Work* user_of(std::uint64_t address, std::uint64_t size, bool only_running = false) const;

  /// The same among the work that does not come before the point the clock stands for.
  [[nodiscard]] const Work* user_not_before(const Clock& point, std::uint64_t address, std::uint64_t size) const;

 private:
  std::list<const Work*> all_;
};

}  // namespace memlake::emulator
