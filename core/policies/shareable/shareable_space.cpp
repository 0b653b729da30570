#include "policies/shareable/shareable_space.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

// Memory that others of this size will want again is spared as long as there is room for new memory.
constexpr Rung kLadder[] = {Rung::search_ordered,   Rung::grow,   Rung::gather,        Rung::wait_for_events,
                            Rung::wait_for_threads, Rung::search, Rung::gather_waiting};

/// First of all, because without virtual memory management there is no granule.
Bytes granule_of(const Devices& devices, const ShareableOptions& options) {
  // A pool with a handle type makes this space as well, so the advice names that argument, too.
  if (options.is_single)
    require_virtual_memory(devices, "a buffer of a single handle", "allocate without single_handle and shareable");
  else
    require_virtual_memory(devices, "a shareable buffer", "leave shareable and handle_type out");
  return common_granularity(devices);
}

}  // namespace

ShareableSpace::ShareableSpace(std::vector<std::shared_ptr<Device>> devices, const ShareableOptions& options,
                               EventSource& events, std::shared_ptr<Budget> budget)
    : Space(devices, total_memory(devices), events, Ledger(std::move(budget), devices.size())),
      devices_(std::move(devices)),
      options_(options),
      granule_(granule_of(devices_, options_)),
      clock_(events) {
  facets_ = {.reuse = this, .several_owners = this, .several_places = this, .peer_access = this};
  is_exportable_ = true;
  for (const auto& device : devices_) {
    const FeatureAnswer answer = ask_feature(device, Feature::file_descriptors);
    if (answer.has.value_or(false)) continue;
    is_exportable_ = false;
    if (!options_.is_single)
      throw Error(ErrorKind::config, "device " + std::to_string(device->ordinal()) +
                                         " cannot hand memory to other processes as file descriptors (" +
                                         answer.reason + "); leave shareable and handle_type out");
  }
  options_.largest_chunk = up(options_.largest_chunk);
}

Bytes ShareableSpace::round(Bytes requested) const { return up(requested); }

Bytes ShareableSpace::largest_device() const {
  Bytes largest{0};
  for (const auto& device : devices_) largest = std::max(largest, device->total_memory());
  return down(largest);
}

Bytes ShareableSpace::room(bool asks_driver) {
  const Bytes most = std::min(ledger_.most(), reach_.total());
  const Bytes left = down(most.excess_over(ledger_.held()));
  if (!asks_driver) return left;
  Bytes physical{0};
  for (const auto& device : devices_) {
    const Bytes free = down(device->free_memory());
    physical = options_.is_single ? std::max(physical, free) : physical + free;
  }
  return std::min(left, physical);
}

void ShareableSpace::index(ShareableRange& range) {
  free_[{range.block.stream, range.range.size.count}].push_back(&range);
}

void ShareableSpace::unindex(ShareableRange& range) {
  std::erase(free_.at({range.block.stream, range.range.size.count}), &range);
}

ShareableRange& ShareableSpace::keep(std::unique_ptr<ShareableRange> range) {
  range->place = ranges_.size();
  range->serial = ++ranges_made_;
  ranges_.push_back(std::move(range));
  watch_.segment_made(false);
  return *ranges_.back();
}

void ShareableSpace::forget(ShareableRange& range) {
  watch_.segment_gone(false);
  const std::size_t place = range.place;
  std::swap(ranges_[place], ranges_.back());
  ranges_[place]->place = place;
  ranges_.pop_back();
}

Block* ShareableSpace::take(Bytes rounded, StreamId stream) {
  const auto found = free_.find({stream, rounded.count});
  if (found == free_.end() || found->second.empty()) return nullptr;
  ShareableRange& range = *found->second.back();  // the one freed last
  found->second.pop_back();
  range.is_stock = false;
  return &range.block;
}

template <class Act>
Block* ShareableSpace::try_to(Attempt& attempt, Tried::What what, Act&& act) {
  try {
    Block* block = act();
    if (block != nullptr) attempt.tried.push_back({what, false});
    return block;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    has_driver_refused_ = true;
    attempt.tried.push_back({what, true});
    return nullptr;
  }
}

Ladder ShareableSpace::ladder(const Attempt&) const { return kLadder; }

Block* ShareableSpace::climb(Rung rung, Attempt& attempt) {
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  switch (rung) {
    case Rung::search_ordered: {
      has_driver_refused_ = false;
      Block* block = take_elsewhere(size, stream);
      return block != nullptr ? block : split_stock(size, stream);
    }
    case Rung::grow:
      return try_to(attempt, Tried::What::map, [&] { return grow(size, stream); });
    case Rung::wait_for_threads:
      // Memory that other threads are making counts against the budget until they are done.
      if (unlocker_ != nullptr) unlocker_->wait_for_others();
      return nullptr;
    case Rung::search:
      return take(size, stream);
    default:
      return try_to(attempt, Tried::What::gather, [&] { return gather(size, stream, rung == Rung::gather_waiting); });
  }
}

bool ShareableSpace::has_passed(const ShareableRange& range) { return clock_.has_passed(range.freed()); }

bool ShareableSpace::may_have(StreamId stream, const ShareableRange& range) {
  return clock_.reuse(stream, range.freed(), rules_) != StreamClock::Reuse::none;
}

Block* ShareableSpace::take_elsewhere(Bytes size, StreamId stream) {
  for (auto& [key, ranges] : free_) {
    if (key.second != size.count || key.first == stream) continue;
    for (std::size_t i = ranges.size(); i-- > 0;) {
      ShareableRange& range = *ranges[i];
      if (!may_have(stream, range)) continue;
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
      range.block.stream = stream;
      range.is_stock = false;
      return &range.block;
    }
  }
  return nullptr;
}

Block* ShareableSpace::split_stock(Bytes size, StreamId stream) {
  ShareableRange* best = nullptr;
  if (options_.is_single) return nullptr;
  for_each_free([&](ShareableRange& range) {
    if (!range.is_stock || range.parts_at_end(size) == 0) return;
    if (best != nullptr && best->range.size <= range.range.size) return;
    if (may_have(stream, range)) best = &range;
  });
  if (best == nullptr) return nullptr;
  unindex(*best);
  const std::size_t cut_count = best->parts_at_end(size);
  const auto from = best->parts.end() - static_cast<std::ptrdiff_t>(cut_count);
  std::vector<ShareableRange::Part> cut(std::make_move_iterator(from), std::make_move_iterator(best->parts.end()));
  ShareableRange& made = keep(std::make_unique<ShareableRange>(std::move(cut), granule_, group_, stream));
  made.serial = best->serial;  // nothing else came to lie behind these addresses
  best->drop_last(cut_count);
  if (best->parts.empty()) {
    forget(*best);
  } else {
    best->shrink_by(size);
    index(*best);
  }
  return &made.block;
}

Block* ShareableSpace::grow(Bytes size, StreamId stream) {
  if (options_.is_single && size > largest_device()) return nullptr;
  // Not to find out chunk by chunk that a large one does not fit.
  return size > room(size > options_.largest_chunk) ? nullptr : join(create(size, stream), stream);
}

void ShareableSpace::give_back(Block* block) {
  ShareableRange& range = range_of(*block);
  if (range.is_exported) return release(range);
  // What no caller had in hand was made in advance.
  range.is_stock = block->state == BlockState::free;
  block->state = BlockState::free;
  range.freed_at = clock_.now(block->stream);
  index(range);
}

bool ShareableSpace::serves(const Block& block, Bytes rounded) const {
  return block.size == rounded && !range_of(block).is_exported;
}

void ShareableSpace::for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const {
  if (!range_of(block).is_exported) visit(block.stream);
}

void ShareableSpace::for_each(const std::function<void(const Block&)>& visit) const {
  for (const auto& range : ranges_) visit(range->block);
}

Bytes ShareableSpace::largest_free() const {
  Bytes largest{0};
  for_each_free([&](const ShareableRange& range) { largest = std::max(largest, range.range.size); });
  return largest;
}

Bytes ShareableSpace::largest_free(StreamId stream) const {
  Bytes largest{0};
  for_each_free([&](const ShareableRange& range) {
    if (range.block.stream == stream) largest = std::max(largest, range.range.size);
  });
  return largest;
}

Outlook ShareableSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  Outlook outlook;
  outlook.page = granule_;
  outlook.room = room_within(device_free);
  if (options_.is_single) {  // of one device, so the room of all of them together is not for it
    Bytes largest{0};
    for (const auto& device : devices_) largest = std::max(largest, device->free_memory());
    outlook.room = std::min(outlook.room, largest);
  }
  for_each_free(
      [&](const ShareableRange& range) { outlook.free_and_usable = outlook.free_and_usable + range.range.size; });
  outlook.grows_from = outlook.free_and_usable;
  outlook.in_one_range = outlook.free_and_usable + down(outlook.room);
  if (options_.is_single) outlook.in_one_range = std::max(largest_free(), down(outlook.room));
  const Bytes whole = attempt.rounded.rounded_up(granule_);
  const Bytes missing = whole.excess_over(outlook.free_and_usable);
  outlook.need = need_of(whole, missing, missing);
  outlook.advice =
      options_.is_single
          ? "a buffer of a single handle is one chunk of one device; close buffers that are not, or ask for less"
          : "there is enough memory, but other buffers of the pool lie in chunks of it, and a shareable buffer owns "
            "its "
            "chunks "
            "whole; close buffers that are not shareable, or ask for less";
  return outlook;
}

void ShareableSpace::change_access(const Devices& added, const Devices& removed) {
  std::vector<AddressRange> mappings;
  for (const auto& range : ranges_) mappings.push_back(range->range);
  reach_.change_rights(mappings, added, removed);
}

std::uint64_t ShareableSpace::generation(const Block& block) const {
  // Apart from those of the policy's space, at whose old addresses a range may come to lie.
  return (std::uint64_t{1} << 62) + (options_.is_single ? std::uint64_t{1} << 61 : 0) + range_of(block).serial;
}

void ShareableSpace::for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const {
  for (const ShareableRange::Part& part : range_of(block).parts) visit(part.device, part.size());
}

std::vector<ExportedChunk> ShareableSpace::descriptors_of(const Block& block) const {
  std::vector<ExportedChunk> chunks;
  chunks.reserve(range_of(block).parts.size());
  for (const ShareableRange::Part& part : range_of(block).parts)
    chunks.push_back({Descriptor(part.mapping.chunk()->export_fd()), part.size(), part.device});
  return chunks;
}

void ShareableSpace::note_export(const Block& block) {
  ShareableRange& range = range_of(block);
  range.is_exported = true;
  range.block.give_back = GiveBack::to_driver;
}

}  // namespace memlake
