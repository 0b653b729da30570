#pragma once

// What the host has seen of the work of streams. A call of the program comes after all work that an earlier call has
// seen the end of: a synchronisation, a query that returned success, a copy that returned when it was done. One clock
// stands for all threads of the program, because the emulator does not see how the threads wait for each other.
//
// Checks of the order ask this clock and the clock of a stream, and never whether work has finished. So a missing
// synchronisation is reported in every run, also in those where the work happened to be quick.

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "work/clock.hpp"

namespace memlake::emulator {

class Order {
 public:
  /// A stream that may have operations from now on.
  void begin(std::uint64_t stream) { open_.insert(stream); }

  /// The stream has done its last operation and is gone. It stays known until the host has seen that operation.
  void end(std::uint64_t stream, std::uint64_t last, std::uint64_t context) {
    if (seen_.covers(stream, last) || last == 0) {
      forget(stream);
    } else {
      ended_.emplace(stream, Ended{last, context});
    }
  }

  /// The host has seen the end of all work that comes before the point.
  void see(const Clock& point) {
    seen_.merge(point);
    forget_if([this](std::uint64_t stream, const Ended& ended) { return seen_.covers(stream, ended.last); });
  }

  /// The host has waited for a context, and so for its streams that are gone.
  void see_ended(std::uint64_t context) {
    forget_if([context](std::uint64_t, const Ended& ended) { return ended.context == context; });
  }

  /// The last operations of the streams of a context that are gone and that the host has not seen.
  [[nodiscard]] Clock ended_of(std::uint64_t context) const {
    Clock point;
    for (const auto& [stream, ended] : ended_)
      if (ended.context == context) point.note(stream, ended.last);
    return point;
  }

  void see(std::uint64_t stream, std::uint64_t position) { seen_.note(stream, position); }

  [[nodiscard]] bool has_seen(std::uint64_t stream, std::uint64_t position) const {
    return is_closed(stream) || seen_.covers(stream, position);
  }
  [[nodiscard]] bool has_seen(const Clock& point) const {
    return point.is_all([this](std::uint64_t stream, std::uint64_t position) { return has_seen(stream, position); });
  }

  /// Whether the stream is gone and the host has seen all its operations. Such a stream needs no place in a clock.
  [[nodiscard]] bool is_closed(std::uint64_t stream) const { return !open_.contains(stream); }

 private:
  struct Ended {
    std::uint64_t last;
    std::uint64_t context;
  };

  void forget(std::uint64_t stream) {
    open_.erase(stream);
    seen_.forget([stream](std::uint64_t other) { return other == stream; });
  }

  template <class Selects>
  void forget_if(Selects&& selects) {
    for (auto at = ended_.begin(); at != ended_.end();) {
      if (selects(at->first, at->second)) {
        forget(at->first);
        at = ended_.erase(at);
      } else {
        ++at;
      }
    }
  }

  Clock seen_;
  std::unordered_set<std::uint64_t> open_;          // streams that may have operations the host has not seen
  std::unordered_map<std::uint64_t, Ended> ended_;  // those of them that are gone
};

}  // namespace memlake::emulator
