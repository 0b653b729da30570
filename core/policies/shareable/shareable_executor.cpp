// The part of ShareableSpace that calls the driver. A request first releases the chunks that must make room. The chunks
// that it takes from free ranges are in no range until they are mapped again; if a call fails meanwhile, they are
// released to the driver. So a failure costs free memory only.

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "policies/shareable/shareable_space.hpp"

namespace memlake {

std::optional<ShareableSpace::Plan> ShareableSpace::plan(Bytes size, bool may_wait) {
  std::vector<ShareableRange*> ranges;
  Bytes free{0};
  for_each_free([&](ShareableRange& range) {
    if (!may_wait && !has_passed(range)) return;
    ranges.push_back(&range);
    free = free + range.range.size;
  });
  const Bytes left_to_make = room(has_driver_refused_);
  // A refusal that is certain leaves what is cached as it is.
  if (free.count == 0 || free + left_to_make < size) return std::nullopt;

  // Whole ranges from the largest down, then the ends of those that are too large.
  std::ranges::stable_sort(ranges, std::greater<>{}, [](const ShareableRange* range) { return range->range.size; });
  Plan plan{.takings = {}, .fresh = size};
  for (const bool wants_ends : {false, true}) {
    if (options_.is_single) break;  // chunks are not joined
    for (ShareableRange*& range : ranges) {
      if (range == nullptr || plan.fresh.count == 0 || (!wants_ends && range->range.size > plan.fresh)) continue;
      Taking taking{.range = range};
      while (taking.moved < range->parts.size()) {
        const Bytes last = range->parts[range->parts.size() - 1 - taking.moved].size();
        if (last > plan.fresh) break;
        plan.fresh = plan.fresh - last;
        ++taking.moved;
      }
      if (taking.moved == 0) continue;
      plan.takings.push_back(taking);
      if (taking.moved == range->parts.size()) range = nullptr;
    }
  }

  // What is still missing is made anew; chunks that are too large for it make room.
  Bytes gained = left_to_make;
  for (ShareableRange* range : ranges) {
    if (gained >= plan.fresh) break;
    if (range == nullptr) continue;
    auto taking = std::ranges::find(plan.takings, range, &Taking::range);
    if (taking == plan.takings.end()) taking = plan.takings.insert(plan.takings.end(), {.range = range});
    while (gained < plan.fresh && taking->moved + taking->released < range->parts.size()) {
      ++taking->released;
      gained = gained + range->parts[range->parts.size() - taking->moved - taking->released].size();
    }
  }
  return plan;
}

Block* ShareableSpace::gather(Bytes size, StreamId stream, bool may_wait) {
  std::optional<Plan> found = plan(size, may_wait);
  if (!found) return nullptr;
  for (const Taking& taking : found->takings) clock_.wait_or_refuse(taking.range->freed());
  std::vector<LooseChunk> chunks;
  for (const Taking& taking : found->takings) {
    const std::size_t count = taking.moved + taking.released;
    // In the order of their addresses: those to be released come first.
    std::vector<LooseChunk> loose = detach(*taking.range, count);
    std::move(loose.begin() + static_cast<std::ptrdiff_t>(taking.released), loose.end(), std::back_inserter(chunks));
  }
  if (found->fresh.count > 0) {
    std::vector<LooseChunk> fresh = create(found->fresh, stream);
    std::ranges::move(fresh, std::back_inserter(chunks));
  }
  return join(std::move(chunks), stream);
}

std::vector<std::size_t> ShareableSpace::device_order(StreamId stream) const {
  std::vector<std::size_t> order(devices_.size());
  std::iota(order.begin(), order.end(), 0);
  if (options_.placement == Placement::near) {
    const std::size_t near = std::min(events_.handles().device_of(stream), order.size() - 1);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(near),
                order.begin() + static_cast<std::ptrdiff_t>(near) + 1);
  }
  return order;
}

int ShareableSpace::more_handle_types(const Device& device) const {
  const bool has_fabric = device.features().has(Feature::fabric_handles);
  return has_fabric ? options_.more_handle_types : options_.more_handle_types & ~CU_MEM_HANDLE_TYPE_FABRIC;
}

std::vector<ShareableSpace::LooseChunk> ShareableSpace::create(Bytes size, StreamId stream) {
  std::vector<LooseChunk> chunks;
  std::vector<Bytes> made;
  for (std::size_t i = 0; i < devices_.size(); ++i) made.push_back(ledger_.held_on(i));
  std::vector<std::size_t> order = device_order(stream);
  const auto balance = [&] {
    std::ranges::stable_sort(order, {}, [&](std::size_t on) {
      return static_cast<double>(made[on].count) / static_cast<double>(devices_[on]->total_memory().count);
    });
  };
  const bool is_balanced = options_.placement == Placement::balance;
  if (is_balanced) balance();
  // A block lies on one device if it fits on one: then the device does not change from chunk to chunk.
  const auto fits = [&](std::size_t on) { return made[on] + size <= devices_[on]->total_memory(); };
  const auto whole = std::ranges::find_if(order, fits);
  if (is_balanced && whole != order.end()) std::rotate(order.begin(), whole, std::next(whole));
  const bool is_spread = is_balanced && whole == order.end();
  Bytes largest = options_.is_single ? size : options_.largest_chunk;
  std::vector<bool> has_refused(devices_.size());
  while (size.count > 0) {
    const Bytes next = std::min(size, largest);
    if (is_spread) balance();
    const auto on = std::ranges::find_if(order, [&](std::size_t device) { return !has_refused[device]; });
    try {
      CUmemAllocationProp prop = devices_[*on]->allocation_prop(is_exportable_);
      prop.requestedHandleTypes =
          static_cast<CUmemAllocationHandleType>(prop.requestedHandleTypes | more_handle_types(*devices_[*on]));
      auto memory = std::make_shared<PhysicalChunk>(PhysicalChunk::create(devices_[*on], next, prop));
      chunks.push_back({std::move(memory), *on});
      made[*on] = made[*on] + next;
      size = size - next;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      has_refused[*on] = true;
      if (std::ranges::find(has_refused, false) != has_refused.end()) continue;
      // No device has so much; what they have left may do in smaller pieces.
      if (next == granule_ || options_.is_single) throw;
      largest = std::max(granule_, down({next.count / 2}));
      has_refused.assign(devices_.size(), false);
    }
  }
  return chunks;
}

std::vector<ShareableSpace::LooseChunk> ShareableSpace::detach(ShareableRange& range, std::size_t count) {
  const std::size_t first = range.parts.size() - count;
  std::vector<LooseChunk> chunks;
  std::vector<Mapping*> run;
  Bytes size{0};
  for (std::size_t i = first; i < range.parts.size(); ++i) {
    ShareableRange::Part& part = range.parts[i];
    chunks.push_back({part.mapping.chunk(), part.device});
    run.push_back(&part.mapping);
    size = size + part.size();
  }
  Mapping::close_run(run);
  watch_.holds_less(size, false);
  watch_.unmapped({range.range.begin + (range.range.size - size), size}, range.block.stream);
  unindex(range);
  for (std::size_t i = first; i < range.parts.size(); ++i)
    ledger_.subtract(range.parts[i].size(), range.parts[i].device);
  range.drop_last(count);
  if (range.parts.empty()) {
    forget(range);
  } else {
    range.shrink_by(size);
    index(range);
  }
  return chunks;
}

Block* ShareableSpace::join(std::vector<LooseChunk> chunks, StreamId stream) {
  // Memory of one device together, that of the first at the lowest addresses.
  std::ranges::stable_sort(chunks, {}, &LooseChunk::device);
  std::vector<std::shared_ptr<PhysicalChunk>> memory;
  for (const LooseChunk& chunk : chunks) memory.push_back(chunk.memory);
  StitchedRange stitched = stitch(device_, memory, reach_.accessors());
  std::vector<ShareableRange::Part> parts;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    parts.push_back({std::move(stitched.mappings[i]), chunks[i].device});
    ledger_.add(parts.back().size(), chunks[i].device);
  }
  Block& made = keep(std::make_unique<ShareableRange>(std::move(parts), granule_, group_, stream)).block;
  watch_.holds_more(made.size, false);
  watch_.mapped({made.address, made.size}, stream);
  return &made;
}

/// What was exported, when it is free. Nobody can be told of a failure, so the owners tell the hook.
void ShareableSpace::release(ShareableRange& range) {
  std::vector<Mapping*> run;
  for (ShareableRange::Part& part : range.parts) {
    ledger_.subtract(part.size(), part.device);
    run.push_back(&part.mapping);
  }
  try {
    Mapping::close_run(run);
  } catch (const Error&) {
    // They are still mapped; each of them tries again when it is dropped.
  }
  watch_.holds_less(range.range.size, false);
  watch_.unmapped(range.range, range.block.stream);
  forget(range);
}

void ShareableSpace::trim(Bytes keep) {
  std::vector<ShareableRange*> ranges;
  for_each_free([&](ShareableRange& range) { ranges.push_back(&range); });
  for (ShareableRange* range : ranges) {
    if (ledger_.held() <= keep) return;
    Bytes excess = ledger_.held() - keep;
    std::size_t count = 0;
    while (count < range->parts.size()) {
      const Bytes last = range->parts[range->parts.size() - 1 - count].size();
      if (last > excess) break;
      excess = excess - last;
      ++count;
    }
    if (count > 0 && has_passed(*range)) detach(*range, count);
  }
}

void ShareableSpace::release_everything() {
  for_each_free([&](const ShareableRange& range) { clock_.wait(range.freed()); });
  trim({0});
}

}  // namespace memlake
