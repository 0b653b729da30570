#pragma once

// ViewCache: all stitched views. It finds views by size, caches those that are not in use, and unmaps the least
// recently used ones to stay within its limits.

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
  /// `chunk`: the size of one mapping.
  ViewCache(const StitchOptions& options, Bytes chunk, EventSource& events)
      : options_(options), chunk_(chunk), events_(events) {}

  /// A view of the stream that is not in use, of exactly this size and not shadowed; null if there is none.
  StitchedView* find_exact(Bytes size, StreamId stream);
  /// The smallest larger view whose front of this size is not shadowed; null if there is none within reuse_limit.
  StitchedView* find_larger(Bytes size, StreamId stream);

  /// Whether a view of `size` would stay within the limits, if necessary without the views that are not in use.
  [[nodiscard]] bool could_hold(Bytes size) const;
  /// Evicts views until a view of `size` stays within the limits. False if it does not, because views of a stream that
  /// captures a graph cannot be evicted. pre: could_hold(size).
  bool make_room(Bytes size);
  /// Adds a new view, which is in use.
  void add(std::unique_ptr<StitchedView> view);

  /// A request uses the first `size` bytes of the view.
  void start_use(StitchedView& view, Bytes size);
  void end_use(StitchedView& view);

  /// Evicts all views that are not in use, except those of streams that capture a graph. Like evict_over(), it waits
  /// for streams and throws if a driver call fails.
  void evict_idle();
  /// Evicts the views that map a chunk of the run. A view in use loses only the part behind its used front. pre: the
  /// chunks of the run are free. False if one of them must stay, because its stream captures a graph.
  bool evict_over(PrimitiveSegment& segment, AddressRange run);

  [[nodiscard]] bool has_idle() const { return oldest_ != nullptr; }
  /// The least recently used view that is not in use; null if there is none. StitchedView::newer leads to the next.
  [[nodiscard]] const StitchedView* oldest() const { return oldest_; }
  [[nodiscard]] const std::vector<std::unique_ptr<StitchedView>>& views() const { return views_; }
  [[nodiscard]] const StitchCounters& counters() const { return counters_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t mappings() const { return bytes_.count / chunk_.count; }
  /// The number of views in by_size_, counted again for checks.
  [[nodiscard]] std::size_t offered() const;

 private:
  using Key = std::pair<StreamId, Bytes>;
  static Key key_of(const StitchedView& view) { return {view.block.stream, view.range.size}; }
  [[nodiscard]] bool fits(std::size_t views, Bytes bytes) const;
  /// False if the view's stream captures a graph.
  bool evict(StitchedView& view);
  /// Unmaps the part of a view that is behind its used front. False as evict().
  bool shorten(StitchedView& view);
  void offer(StitchedView& view);
  void withdraw(StitchedView& view, Key key);

  StitchOptions options_;
  Bytes chunk_;
  EventSource& events_;
  std::vector<std::unique_ptr<StitchedView>> views_;   // at their `place`
  std::map<Key, std::vector<StitchedView*>> by_size_;  // not in use; the newest last; no empty entry
  StitchedView* oldest_ = nullptr;                     // the least recently used view that is not in use
  StitchedView* newest_ = nullptr;
  Bytes bytes_;
  std::size_t in_use_ = 0;  // number of views in use; their bytes count whole, even if only the front is used
  Bytes bytes_in_use_;
  StitchCounters counters_;
};

}  // namespace memlake
