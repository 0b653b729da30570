#pragma once

// ViewCache: all stitched views. Finds one by its size, keeps those that nobody uses for later, and unmaps the least
// recently used ones to stay below its caps.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "policies/stitch/stitch_counters.hpp"
#include "policies/stitch/stitch_options.hpp"
#include "policies/stitch/stitched_view.hpp"
#include "streams/event_source.hpp"

namespace memlake {

namespace test {
struct StitchSabotage;
}

class ViewCache {
  friend struct test::StitchSabotage;  // breaks it, so that tests see what check() reports

 public:
  /// `chunk`: what one mapping covers.
  ViewCache(const StitchOptions& options, Bytes chunk, EventSource& events)
      : options_(options), chunk_(chunk), events_(events) {}

  /// A view of the stream that is not in use, of exactly this size and not shadowed; null if there is none.
  StitchedView* find_exact(Bytes size, StreamId stream);
  /// The smallest whose front of this size is not shadowed, unless it is too much larger; null if there is none.
  StitchedView* find_larger(Bytes size, StreamId stream);

  /// Whether a view of `size` would stay below the caps, if need be without those that are not in use.
  [[nodiscard]] bool could_hold(Bytes size) const;
  /// Evicts until a view of `size` stays below the caps. pre: could_hold(size).
  void make_room(Bytes size);
  /// A new view, which is in use.
  void add(std::unique_ptr<StitchedView> view);

  /// Of its first `size` bytes.
  void start_use(StitchedView& view, Bytes size);
  void end_use(StitchedView& view);

  /// Those that are not in use. Waits for their streams, throws what the driver refuses; so does the next.
  void evict_idle();
  /// Those that show chunks which are free; of a view in use only what is behind the front that is used.
  void evict_over(PrimitiveSegment& segment, AddressRange run);

  [[nodiscard]] bool has_idle() const { return oldest_ != nullptr; }
  [[nodiscard]] const std::vector<std::unique_ptr<StitchedView>>& views() const { return views_; }
  [[nodiscard]] const StitchCounters& counters() const { return counters_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t mappings() const { return bytes_.count / chunk_.count; }
  /// Those that are offered to requests, recounted.
  [[nodiscard]] std::size_t offered() const;

 private:
  using Key = std::pair<StreamId, Bytes>;
  static Key key_of(const StitchedView& view) { return {view.block.stream, view.range.size}; }
  [[nodiscard]] bool fits(std::size_t views, Bytes bytes) const;
  void evict(StitchedView& view);
  /// Takes from a view whose front is in use what is behind that.
  void shorten(StitchedView& view);
  void offer(StitchedView& view);
  void withdraw(StitchedView& view, Key key);

  StitchOptions options_;
  Bytes chunk_;
  EventSource& events_;
  std::vector<std::unique_ptr<StitchedView>> views_;   // at their `place`
  std::map<Key, std::vector<StitchedView*>> by_size_;  // not in use; the newest last; no empty entry
  StitchedView* oldest_ = nullptr;                     // of those that are not in use
  StitchedView* newest_ = nullptr;
  Bytes bytes_;
  std::size_t in_use_ = 0;  // and how many bytes those show, whether all of it is used or only the front
  Bytes bytes_in_use_;
  StitchCounters counters_;
};

}  // namespace memlake
