#include "policies/stitch/view_cache.hpp"

#include <algorithm>
#include <utility>

namespace memlake {

StitchedView* ViewCache::find_exact(Bytes size, StreamId stream) {
  if (oldest_ == nullptr) return nullptr;
  const auto found = by_size_.find({stream, size});
  if (found == by_size_.end()) return nullptr;
  for (auto at = found->second.rbegin(); at != found->second.rend(); ++at)
    if (!(*at)->is_shadowed(size)) return *at;
  return nullptr;
}

StitchedView* ViewCache::find_larger(Bytes size, StreamId stream) {
  const Bytes largest{static_cast<std::uint64_t>(static_cast<double>(size.count) * options_.reuse_limit)};
  for (auto at = by_size_.upper_bound({stream, size}); at != by_size_.end() && at->first <= Key{stream, largest}; ++at)
    for (StitchedView* view : at->second)
      if (!view->is_shadowed(size)) return view;
  return nullptr;
}

bool ViewCache::fits(std::size_t views, Bytes bytes) const {
  return views <= options_.max_views && bytes <= options_.max_view_bytes &&
         bytes.count / chunk_.count <= options_.max_mappings;
}

bool ViewCache::could_hold(Bytes size) const { return fits(in_use_ + 1, bytes_in_use_ + size); }

bool ViewCache::make_room(Bytes size) {
  for (StitchedView* view = oldest_; view != nullptr && !fits(views_.size() + 1, bytes_ + size);) {
    StitchedView* next = view->newer;
    evict(*view);
    view = next;
  }
  return fits(views_.size() + 1, bytes_ + size);
}

void ViewCache::add(std::unique_ptr<StitchedView> view) {
  for (const StitchedView::Part& part : view->parts)
    if (std::ranges::find(part.segment->views, view.get()) == part.segment->views.end())
      part.segment->views.push_back(view.get());
  view->place = views_.size();
  view->serial = counters_.stitches;
  bytes_ = bytes_ + view->range.size;
  ++in_use_;
  bytes_in_use_ = bytes_in_use_ + view->range.size;
  ++counters_.stitches;
  counters_.in_use.add(view->range.size);
  views_.push_back(std::move(view));
}

void ViewCache::start_use(StitchedView& view, Bytes size) {
  withdraw(view, key_of(view));
  view.block.size = size;
  ++in_use_;
  bytes_in_use_ = bytes_in_use_ + view.range.size;
  ++counters_.hits;
  counters_.in_use.add(size);
}

void ViewCache::end_use(StitchedView& view) {
  --in_use_;
  bytes_in_use_ = bytes_in_use_ - view.range.size;
  counters_.in_use.subtract(view.block.size);
  view.block.size = view.range.size;
  offer(view);
}

void ViewCache::offer(StitchedView& view) {
  by_size_[key_of(view)].push_back(&view);
  view.older = newest_;
  view.newer = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->newer) = &view;
  newest_ = &view;
}

void ViewCache::withdraw(StitchedView& view, Key key) {
  const auto same = by_size_.find(key);
  same->second.erase(std::ranges::find(same->second, &view));
  if (same->second.empty()) by_size_.erase(same);
  (view.older == nullptr ? oldest_ : view.older->newer) = view.newer;
  (view.newer == nullptr ? newest_ : view.newer->older) = view.older;
}

bool ViewCache::evict(StitchedView& view) {
  // The stream's work may still be running at these addresses.
  if (!events_.waits().wait_for_stream(view.block.stream)) return false;
  const Key key = key_of(view);
  const std::vector<StitchedView::Part> parts = view.parts;
  view.shorten({0});
  withdraw(view, key);
  for (const StitchedView::Part& part : parts) std::erase(part.segment->views, &view);
  bytes_ = bytes_ - key.second;
  ++counters_.evictions;
  const std::size_t place = view.place;
  std::swap(views_[place], views_.back());
  views_[place]->place = place;
  views_.pop_back();
  return true;
}

bool ViewCache::shorten(StitchedView& view) {
  if (!events_.waits().wait_for_stream(view.block.stream)) return false;
  const Bytes before = view.range.size;
  const std::vector<StitchedView::Part> parts = view.parts;
  view.shorten(view.block.size);
  for (const StitchedView::Part& part : parts)
    if (!view.touches(*part.segment, part.segment->range)) std::erase(part.segment->views, &view);
  bytes_ = bytes_ - (before - view.range.size);
  bytes_in_use_ = bytes_in_use_ - (before - view.range.size);
  return true;
}

void ViewCache::evict_idle() {
  for (StitchedView* view = oldest_; view != nullptr;) {
    StitchedView* next = view->newer;
    evict(*view);
    view = next;
  }
}

bool ViewCache::evict_over(PrimitiveSegment& segment, AddressRange run) {
  const std::vector<StitchedView*> views = segment.views;
  return std::ranges::all_of(views, [&](StitchedView* view) {
    if (!view->touches(segment, run)) return true;
    return view->is_in_use() ? shorten(*view) : evict(*view);
  });
}

std::size_t ViewCache::offered() const {
  std::size_t count = 0;
  for (const auto& [key, views] : by_size_) count += views.size();
  return count;
}

}  // namespace memlake
