#pragma once

// Vector clocks of streams. Work of one stream runs in order; events and the legacy default stream order one stream
// behind another. A clock belongs to a point: the next operation of a stream, the recording of an event, or a wait of
// the host. For each stream it has the position up to which the stream's work comes before that point.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace memlake::emulator {

class Clock {
 public:
  /// Whether the operation at this position of the stream comes before the point.
  [[nodiscard]] bool covers(std::uint64_t stream, std::uint64_t position) const {
    const auto found = std::ranges::lower_bound(entries_, stream, {}, &Entry::first);
    return found != entries_.end() && found->first == stream && found->second >= position;
  }

  void note(std::uint64_t stream, std::uint64_t position) {
    const auto found = std::ranges::lower_bound(entries_, stream, {}, &Entry::first);
    if (found == entries_.end() || found->first != stream) {
      entries_.insert(found, {stream, position});
    } else {
      found->second = std::max(found->second, position);
    }
  }

  void merge(const Clock& other) {
    for (const auto& [stream, position] : other.entries_) note(stream, position);
  }

  /// Whether `is_before` selects everything that the clock has: stream and position.
  template <class IsBefore>
  [[nodiscard]] bool is_all(IsBefore&& is_before) const {
    return std::ranges::all_of(entries_, [&](const Entry& entry) { return is_before(entry.first, entry.second); });
  }

  /// Removes streams. A removed stream counts as not ordered.
  template <class IsGone>
  void forget(IsGone&& is_gone) {
    std::erase_if(entries_, [&](const Entry& entry) { return is_gone(entry.first); });
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  using Entry = std::pair<std::uint64_t, std::uint64_t>;

  std::vector<Entry> entries_;  // by stream
};

}  // namespace memlake::emulator
