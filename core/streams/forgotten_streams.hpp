#pragma once

// ForgottenStreams: when a pool forgets streams of other libraries.
//
// No driver call tells whether such a stream still exists. A pool that remembered all of them would have an entry for
// every stream that ever existed. So the pool looks through its table when the table has grown, and forgets the streams
// that no call has named since the look before, if their work is known to be complete. The host waits for the device
// only if the table has grown a lot: a wait stalls the program, which may have no other reason to wait. A stream that
// comes back gets a new entry. If many come back, the program uses more streams in turn than the table has entries;
// then the table grows instead.

#include <cstddef>
#include <cstdint>
#include <unordered_set>

namespace memlake {

class ForgottenStreams {
 public:
  /// A stream is named that has no entry. `identity`: the driver's number of it, or its handle.
  void note_arrival(std::uint64_t identity) { returned_ += identities_.erase(identity); }
  /// Whether the table has to be looked through. `kept`: the entries that no other stream can take over.
  [[nodiscard]] bool is_look_due(std::size_t kept) const { return kept >= due_at_; }
  /// Whether the host may wait for the device during the look.
  [[nodiscard]] bool is_wait_due(std::size_t kept) const { return kept >= wait_at_; }
  /// Whether many streams came back since the last look.
  [[nodiscard]] bool do_return() const { return returned_ > kPeriod / 4; }

  void note_forgotten(std::uint64_t identity) {
    if (identities_.size() >= kMostIdentities) identities_.clear();
    identities_.insert(identity);
  }
  /// The look is over.
  void end_look(std::size_t kept, bool has_waited) {
    due_at_ = do_return() ? 2 * kept : kept + kPeriod;
    if (do_return() || has_waited) wait_at_ = due_at_ + kPatience;
    returned_ = 0;
  }

 private:
  static constexpr std::size_t kPeriod = 64;     // new streams between two looks
  static constexpr std::size_t kPatience = 256;  // new streams between two waits
  static constexpr std::size_t kMostIdentities = 1 << 16;

  std::unordered_set<std::uint64_t> identities_;
  std::size_t due_at_ = kPeriod;
  std::size_t wait_at_ = kPatience;
  std::size_t returned_ = 0;
};

}  // namespace memlake
