#include "policies/stitch/stitch_space.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "policies/torch/torch_rules.hpp"
#include "policies/torch/torch_sizes.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

// Every means that needs no waiting, three times: at once, after the host has waited for events, and after everything
// cached went back to the driver.
constexpr Rung kLadder[] = {
    Rung::search,
    Rung::gather_first,
    Rung::grow,
    Rung::grow_with_rest,
    Rung::gather,
    Rung::evict_views,
    Rung::release_of_streams,
    Rung::wait_for_events,
    Rung::search,
    Rung::gather_first,
    Rung::grow,
    Rung::grow_with_rest,
    Rung::gather,
    Rung::evict_views,
    Rung::release_of_streams,
    Rung::release_cached,
    Rung::gather_first,
    Rung::grow,
    Rung::grow_with_rest,
    Rung::gather,
    Rung::evict_views,
    Rung::release_of_streams,
};
// PyTorch's ladder, but one chunk at a time makes room first: PyTorch gives all cached small memory back.
constexpr Rung kSmallLadder[] = {
    Rung::make_small_room, Rung::collect_garbage, Rung::grow, Rung::release_oversize,  Rung::wait_for_events,
    Rung::make_small_room, Rung::release_cached,  Rung::grow, Rung::release_for_small,
};

StitchOptions settle(StitchOptions options, const Device& device) {
  options.chunk_size = std::max(options.chunk_size, torch::kSmallSegment)
                           .rounded_up(device.granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  if (options.max_view_bytes.count == 0) options.max_view_bytes = device.total_memory() * 4;
  return options;
}

}  // namespace

StitchSpace::StitchSpace(std::shared_ptr<Device> device, const StitchOptions& options, EventSource& events,
                         std::shared_ptr<Budget> budget)
    : Space(device, events, std::move(budget)),
      options_(settle(options, *device)),
      small_(device, std::make_unique<TorchRules>(TorchOptions{}), events, Ledger::inside(ledger_)),
      blocks_(device, options_.chunk_size),
      views_(options_, options_.chunk_size, events) {
  facets_.counters = this;
  facets_.use_order = this;
}

Bytes StitchSpace::round(Bytes requested) const {
  const Bytes rounded = small_.round(requested);
  return torch::is_small(rounded) ? rounded : requested.rounded_up(blocks_.chunk());
}

bool StitchSpace::serves(const Block& block, Bytes rounded) const {
  return block.group->is_small ? small_.serves(block, rounded) : block.size == rounded;
}

Block* StitchSpace::take(Bytes rounded, StreamId stream) {
  if (torch::is_small(rounded)) return small_.take(rounded, stream);
  const FreeIndex* index = blocks_.free_of(stream);
  Block* block = index == nullptr ? nullptr : index->best_fit(rounded);
  if (block == nullptr || block->size != rounded)
    if (StitchedView* view = views_.find_exact(rounded, stream)) return take_view(*view, rounded);
  if (block != nullptr) return blocks_.cut_out(block, {block->address, rounded});
  StitchedView* larger = views_.find_larger(rounded, stream);
  return larger == nullptr ? nullptr : take_view(*larger, rounded);
}

Block* StitchSpace::take_view(StitchedView& view, Bytes size) {
  views_.start_use(view, size);
  return use(view);
}

Block* StitchSpace::use(StitchedView& view) {
  for (const StitchedView::Part& part : view.parts)
    if (const AddressRange run = part.under(view.block.size); run.size.count > 0) {
      blocks_.cut_out(part.segment->block_at(run.begin), run)->state = BlockState::lent;
      watch_.unmapped(run, view.block.stream);
    }
  watch_.mapped({view.block.address, view.block.size}, view.block.stream);
  view.block.state = BlockState::live;
  return &view.block;
}

void StitchSpace::give_back(Block* block) {
  if (block->group->is_small) return small_.give_back(block);
  if (block->group != &view_group_) return blocks_.put_back(block, BlockState::free);
  auto& view = static_cast<StitchedView&>(*block->memory);
  block->state = BlockState::free;
  watch_.unmapped({block->address, block->size}, block->stream);
  for (const StitchedView::Part& part : view.parts) {
    if (part.offset >= block->size) continue;
    watch_.mapped(part.under(block->size), block->stream);
    blocks_.put_back(part.segment->block_at(part.run.begin), BlockState::free);
  }
  views_.end_use(view);
}

Bytes StitchSpace::room() {
  const Bytes allowed = std::min(ledger_.most(), reach_.total()).excess_over(ledger_.held());
  return has_driver_refused_ ? std::min(allowed, device_->free_memory()) : allowed;
}

Ladder StitchSpace::ladder(const Attempt& attempt) const {
  return torch::is_small(attempt.rounded) ? Ladder(kSmallLadder) : Ladder(kLadder);
}

Block* StitchSpace::climb(Rung rung, Attempt& attempt) {
  if (torch::is_small(attempt.rounded)) return climb_small(rung, attempt);
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  const auto stitches = [&] { return try_to(Tried::What::gather, attempt, [&] { return stitch(size, stream); }); };
  const auto grows = [&] { return try_to(Tried::What::new_segment, attempt, [&] { return grow(size, stream); }); };
  switch (rung) {
    case Rung::search:
      has_driver_refused_ = false;
      return take(size, stream);
    case Rung::gather_first:
      return size >= options_.frag_limit ? stitches() : nullptr;
    case Rung::grow:
      return grows();
    case Rung::grow_with_rest:
      return attempt.has_failed ? grows() : nullptr;
    case Rung::gather:
      return stitches();
    case Rung::evict_views:
      // It may be that page tables have no room.
      if (!attempt.has_failed) return nullptr;
      views_.evict_idle();
      attempt.tried.push_back({Tried::What::release, false});
      return stitches();
    case Rung::release_of_streams: {
      if (!tries_to_release(attempt, [&] { return release_of_others(attempt); })) return nullptr;
      Block* block = stitches();
      return block != nullptr ? block : grows();
    }
    default:  // release_cached
      // Only if it can help: a refusal that is certain leaves what is cached as it is.
      attempt.is_hopeless = !can_gain_from_releasing(size);
      if (attempt.is_hopeless) return nullptr;
      attempt.is_retry = true;
      static_cast<void>(tries_to_release(attempt, [&] {
        release_everything();
        return true;
      }));
      return nullptr;
  }
}

template <class Work>
auto StitchSpace::try_to(Tried::What what, Attempt& attempt, Work&& work) -> decltype(work()) {
  attempt.has_failed = false;
  decltype(work()) result{};
  try {
    result = work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.has_failed = true;
    has_driver_refused_ = true;
  }
  if (result || attempt.has_failed) attempt.tried.push_back({what, attempt.has_failed});
  return result;
}

template <class Work>
bool StitchSpace::tries_to_release(Attempt& attempt, Work&& work) {
  return try_to(Tried::What::release, attempt, std::forward<Work>(work));
}

Block* StitchSpace::grow(Bytes size, StreamId stream) {
  const Bytes allowed = room();
  if (allowed < size) return nullptr;
  // As PyTorch does, a request of less than 10 MiB gets a larger segment, which others will share.
  const Bytes segment = std::max(torch::segment_size(size, {}), size).rounded_up(blocks_.chunk());
  grow_by(segment <= allowed ? segment : size, stream);
  return take_best_fit(size, stream);
}

template <class Work>
auto StitchSpace::with_addresses(Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::address_exhaustion || !views_.has_idle()) throw;
  }
  views_.evict_idle();  // they have addresses
  return work();
}

void StitchSpace::grow_by(Bytes size, StreamId stream) {
  with_addresses([&] { blocks_.grow(stream, size); });
  ledger_.add(size);
  watch_.holds_more(size, false);
}

Block* StitchSpace::take_best_fit(Bytes size, StreamId stream) {
  const FreeIndex* index = blocks_.free_of(stream);
  Block* block = index == nullptr ? nullptr : index->best_fit(size);
  return block == nullptr ? nullptr : blocks_.cut_out(block, {block->address, size});
}

Block* StitchSpace::stitch(Bytes size, StreamId stream) {
  // A driver that maps a handle once has refused a view before.
  if (const auto answer = device_->features().find(Feature::second_mapping); answer && !answer->has.value_or(true))
    return nullptr;
  if (!views_.could_hold(size)) return nullptr;
  const Bytes free = blocks_.free_bytes_of(stream);
  if (free.count == 0) return nullptr;
  if (free < size) {
    if (room() < size - free) return nullptr;
    grow_by(size - free, stream);
    // It may have closed the gap between two blocks.
    if (Block* block = take_best_fit(size, stream)) return block;
  }
  if (!views_.make_room(size)) return nullptr;
  const std::vector<StitchedView::Part> parts = choose_parts(size, stream);
  std::unique_ptr<StitchedView> view;
  try {
    view = with_addresses([&] { return std::make_unique<StitchedView>(device_, parts, view_group_, stream); });
  } catch (const Error& error) {
    if (!refuses_mapping(error)) throw;
    device_->features().turn_off(Feature::second_mapping, device_->ordinal(), error.what());
    return nullptr;
  }
  StitchedView& made = *view;
  views_.add(std::move(view));
  return use(made);
}

std::vector<StitchedView::Part> StitchSpace::choose_parts(Bytes size, StreamId stream) const {
  // The largest first, so that there are few; of the last only what is missing, from the block that it fits best.
  std::vector<StitchedView::Part> parts;
  const FreeIndex& index = *blocks_.free_of(stream);
  Bytes missing = size;
  for (Block* block = index.last(); missing.count > 0; block = index.before(block)) {
    if (block->size >= missing) block = index.best_fit(missing);
    const Bytes taken = std::min(block->size, missing);
    parts.push_back({&PrimitiveBlocks::segment_of(*block), {block->address, taken}, size - missing});
    missing = missing - taken;
  }
  return parts;
}

Block* StitchSpace::climb_small(Rung rung, Attempt& attempt) {
  const auto releases = [&](Bytes size) {
    const bool is_done = tries_to_release(attempt, [&] { return release_for_small(size); });
    attempt.has_failed = false;  // the next rung is one of PyTorch's
    return is_done;
  };
  switch (rung) {
    case Rung::make_small_room:
      if (!std::exchange(starts_small_over_, false)) has_driver_refused_ = false;
      if (const Bytes allowed = room(); allowed < torch::kSmallSegment) releases(torch::kSmallSegment - allowed);
      return nullptr;
    case Rung::release_for_small:
      has_driver_refused_ = true;
      attempt.starts_over = starts_small_over_ = releases(torch::kSmallSegment);
      return nullptr;
    default:
      return small_.climb(rung, attempt);
  }
}

bool StitchSpace::can_gain_from_releasing(Bytes size) {
  Bytes free{0};
  for (const Block* block : free_blocks()) free = free + block->size;
  return free.count > 0 && room() + free >= size;
}

bool StitchSpace::release_of_others(const Attempt& attempt) {
  const StreamId stream = attempt.request.stream;
  const Bytes own = blocks_.free_bytes_of(stream);
  const Bytes allowed = room();
  Bytes others{0};
  std::vector<Block*> victims = free_blocks();
  std::erase_if(victims, [&](const Block* block) { return block->stream == stream; });
  for (const Block* block : victims) others = others + block->size;
  if (own + allowed >= attempt.rounded || own + allowed + others + small_.ledger().held() < attempt.rounded)
    return false;
  const Bytes lacking = attempt.rounded - own - allowed;
  const Bytes target = ledger_.held().excess_over(lacking);
  for (Block* block : victims)
    if (ledger_.held() > target)
      release(block, std::min(block->size, (ledger_.held() - target).rounded_up(blocks_.chunk())));
  shrink_small(target, true);
  return ledger_.held() <= target;
}

bool StitchSpace::release_for_small(Bytes size) {
  std::vector<Block*> victims = free_blocks();
  std::ranges::stable_sort(victims, {}, &Block::size);
  return std::ranges::any_of(
      victims, [&](Block* block) { return release(block, std::min(block->size, size.rounded_up(blocks_.chunk()))); });
}

bool StitchSpace::release(Block* block, Bytes size) {
  const AddressRange run{block->address + (block->size - size), size};
  // Its own work may still be running on these chunks.
  if (!events_.waits().wait_for_stream(block->stream)) return false;
  if (!views_.evict_over(PrimitiveBlocks::segment_of(*block), run)) return false;
  blocks_.release(block, run);
  ledger_.subtract(size);
  watch_.holds_less(size, false);
  return true;
}

void StitchSpace::trim(Bytes keep) {
  for (Block* block : free_blocks()) {
    const Bytes most{ledger_.held().excess_over(keep).count / blocks_.chunk().count * blocks_.chunk().count};
    if (most.count == 0) break;
    if (!events_.progress().is_idle(block->stream)) continue;
    release(block, std::min(block->size, most));
  }
  shrink_small(keep, false);
}

void StitchSpace::shrink_small(Bytes keep, bool may_wait) {
  if (ledger_.held() <= keep) return;
  small_.shrink_to(keep.excess_over(ledger_.held() - small_.ledger().held()), may_wait);
}

void StitchSpace::release_everything() {
  views_.evict_idle();
  for (Block* block : free_blocks()) release(block, block->size);
  small_.release_everything();
}

std::vector<Block*> StitchSpace::free_blocks() const {
  std::vector<Block*> blocks;
  for (const auto& index : blocks_.group().free)
    for (Block* block = index == nullptr ? nullptr : index->first(); block != nullptr; block = index->after(block))
      blocks.push_back(block);
  return blocks;
}

void StitchSpace::for_each(const std::function<void(const Block&)>& visit) const {
  small_.for_each(visit);
  blocks_.map().for_each([&](const Block& block) {
    if (block.state != BlockState::lent) visit(block);
  });
  for (const auto& view : views_.views())
    if (view->is_in_use()) visit(view->block);
}

std::size_t StitchSpace::segment_count() const { return small_.segment_count() + blocks_.segments().size(); }

Bytes StitchSpace::largest_free() const {
  Bytes largest = small_.largest_free();
  for (const auto& index : blocks_.group().free)
    if (index != nullptr && !index->is_empty()) largest = std::max(largest, index->last()->size);
  return largest;
}

Bytes StitchSpace::largest_free(StreamId stream) const {
  const FreeIndex* index = blocks_.free_of(stream);
  const Bytes small = small_.largest_free(stream);
  return index == nullptr || index->is_empty() ? small : std::max(small, index->last()->size);
}

Outlook StitchSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  const bool is_small = torch::is_small(attempt.rounded);
  Outlook outlook = is_small ? small_.outlook(attempt, device_free) : Outlook{.page = blocks_.chunk()};
  outlook.room = room_within(device_free);
  if (is_small) return outlook;
  outlook.free_and_usable = blocks_.free_bytes_of(attempt.request.stream);
  // Free memory of other streams is given back and made anew, and so is a piece that would need a view too many.
  for (const Block* block : free_blocks()) outlook.grows_from = outlook.grows_from + block->size;
  outlook.in_one_range = outlook.grows_from + outlook.room.rounded_down(blocks_.chunk());
  const Bytes missing = attempt.rounded.excess_over(outlook.grows_from).rounded_up(blocks_.chunk());
  outlook.need = need_of(attempt.rounded, missing, missing);
  outlook.advice =
      "there is enough memory, but small requests and chunks that are partly in use keep some of it, and stitch takes "
      "whole chunks; close the buffers beside it, or ask for less";
  return outlook;
}

std::uint64_t StitchSpace::generation(const Block& block) const {
  if (block.group->is_small) return small_.generation(block);
  // A view is never mapped anew, so its number is enough; the highest bit tells it from those of segments.
  if (block.group == &view_group_) return (std::uint64_t{1} << 63) + block.memory->serial;
  const PrimitiveSegment& segment = PrimitiveBlocks::segment_of(block);
  return ((segment.serial + 1) << 32) + segment.generation({block.address, block.size});
}

std::vector<UseOrder::Idle> StitchSpace::least_recently_used() const {
  std::vector<Idle> idle;
  for (const StitchedView* view = views_.oldest(); view != nullptr; view = view->newer)
    idle.push_back({view->range, view->block.stream});
  return idle;
}

std::vector<Counter> StitchSpace::counters() const {
  const StitchCounters& counters = views_.counters();
  return {{"stitches", counters.stitches},
          {"stitch_hits", counters.hits},
          {"stitch_hit_rate", counters.hit_rate()},
          {"stitch_evictions", counters.evictions},
          {"stitch_bytes_saved", counters.in_use.peak.count},
          {"stitched_views", std::uint64_t{views_.views().size()}},
          {"stitched_bytes", views_.bytes().count},
          {"stitched_mappings", views_.mappings()}};
}

}  // namespace memlake
