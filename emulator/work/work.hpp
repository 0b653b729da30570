#pragma once

// Unfinished work of streams: the memory that it touches, the completions that it waits for, and the list of all
// unfinished work. Memory that work of the list uses does not go. Whether work is ordered before a call is another
// question: uses.hpp.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "basics/origin.hpp"
#include "work/clock.hpp"

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

/// The completion of one piece of work. Events and waits share it. Recording an event again gives it a new completion,
/// so earlier waits are not affected.
struct Completion {
  Stream* stream = nullptr;  ///< the stream of the work; null once done
  bool is_done = false;
  double milliseconds = 0;                            ///< the time of completion, on the process's clock
  std::vector<std::function<void()>> then = {};       ///< called under the lock when the work is done; must not throw
  std::vector<std::shared_ptr<Stream>> waiting = {};  ///< streams with work that waits for it

  void finish();
};
using CompletionRef = std::shared_ptr<Completion>;

inline bool is_pending(const CompletionRef& completion) { return completion != nullptr && !completion->is_done; }

/// What a sentence says of a piece of work, also after it has finished.
struct WorkLabel {
  std::string name;
  Origin origin;

  [[nodiscard]] std::string describe() const;
};
using LabelRef = std::shared_ptr<const WorkLabel>;

struct Work {
  std::string name;  ///< for messages: "cuMemcpyHtoDAsync of 4096 bytes"; moved into the label when it is queued
  Origin origin;
  std::vector<Touch> touches = {};
  /// Runs without the driver's lock. Empty for pure waits and gates.
  std::function<void()> body = {};
  /// Called under the lock just before the work runs. Returns "" or the reason why the device may not run it; the
  /// context then gets a sticky error.
  std::function<std::string()> check = {};
  std::vector<CompletionRef> waits = {};
  /// Whether what the body waits for outside the process has happened. Empty: it waits for nothing.
  std::function<bool()> is_awaited = {};
  std::uint64_t gate = 0;  ///< not 0: the work does not run before this gate is opened
  CompletionRef completion = std::make_shared<Completion>();
  /// Called under the lock when the work has run or was dropped. Must not throw.
  std::function<void()> at_end = {};
  bool is_running = false;
  bool tells_host = false;     ///< code of the program that learns here what the stream has done
  std::uint64_t stream = 0;    ///< the handle of its stream
  std::uint64_t position = 0;  ///< its sequence number in that stream
  Clock point = {};            ///< what comes before it, itself included, if the host learns of its end
  LabelRef label = {};         ///< set when it is queued

  [[nodiscard]] std::string describe() const { return label->describe(); }
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

  /// The completions of all unfinished work that touches the range.
  [[nodiscard]] std::vector<CompletionRef> users_of(std::uint64_t address, std::uint64_t size) const;

 private:
  std::list<const Work*> all_;
};

}  // namespace memlake::emulator
