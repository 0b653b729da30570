#include "policies/segments/segment_space.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace memlake {

namespace {

/// Memory of cuMemAlloc: cuMemFree waits for all work of the device, also for work that does not use the memory.
bool is_plain(const Block* block) { return !block->memory->is_expandable(); }

}  // namespace

SegmentSpace::SegmentSpace(const std::shared_ptr<Device>& device, std::unique_ptr<SegmentRules> rules,
                           EventSource& events, Ledger ledger)
    : SegmentSpace(Devices{device}, std::move(rules), events, std::move(ledger)) {}

SegmentSpace::SegmentSpace(const Devices& devices, std::unique_ptr<SegmentRules> rules, EventSource& events,
                           Ledger ledger)
    : Space(devices, devices.front()->total_memory(), events, std::move(ledger)), rules_(std::move(rules)) {
  facets_.bare_addresses = this;
  facets_.chosen_addresses = this;
  facets_.graph_memory = this;
  if (rules_->maps_its_memory()) facets_.peer_access = this;
  if (rules_->collects_garbage()) facets_.use_order = this;
}

SegmentView SegmentSpace::view() const {
  return {.blocks = blocks_, .held = ledger_.held(), .device_total = reach_.total(), .limit = ledger_.most()};
}

Block* SegmentSpace::take(Bytes rounded, StreamId stream) {
  BlockGroup& group = group_for(rounded);
  Block* block = rules_->find(rounded, stream, group);
  if (block == nullptr) return nullptr;
  ++group.searches;
  return cut(block, rounded);
}

Block* SegmentSpace::take_range(AddressRange range, StreamId stream) {
  for (const BlockGroup* group : {&blocks_.small, &blocks_.large}) {
    const FreeIndex* index = group->index_of(stream);
    for (Block* block = index == nullptr ? nullptr : index->first(); block != nullptr; block = index->after(block)) {
      if (range.begin < block->address || block->end() < range.end()) continue;
      blocks_.unindex(block);
      if (const Bytes before = range.begin - block->address; before.count > 0)
        blocks_.index(blocks_.cut_front(block, before));
      if (block->size > range.size) blocks_.index(blocks_.cut_back(block, range.size));
      return block;
    }
  }
  return nullptr;
}

Block* SegmentSpace::climb(Rung rung, Attempt& attempt) {
  if (rung == Rung::search) return take(attempt.rounded, attempt.request.stream);
  BlockGroup& group = group_for(attempt.rounded);
  Climb climb{.attempt = attempt, .rung = rung, .group = group};
  // A miss counts as one search, whichever rungs follow.
  if (rung == rules_->ladder().front()) ++group.searches;
  attempt.has_failed = false;
  while (true) {
    const Step step = rules_->next(climb, view());
    if (step.kind == Step::Kind::take) return cut(step.block, attempt.rounded);
    if (step.kind == Step::Kind::next_rung) return nullptr;
    run(step, climb);
    ++climb.steps;
  }
}

Block* SegmentSpace::cut(Block* block, Bytes rounded) {
  blocks_.unindex(block);
  if (!rules_->splits(*block, rounded)) return block;
  Block* front = blocks_.cut_front(block, rounded);
  blocks_.index(block);
  return front;
}

void SegmentSpace::give_back(Block* block) {
  block->state = BlockState::free;
  blocks_.merge(block);
  blocks_.index(block);
  if (!rules_->keeps_freed_memory()) release_segment(block);
}

bool SegmentSpace::serves(const Block& block, Bytes rounded) const {
  return block.group->is_small == rules_->is_small(rounded) && block.size >= rounded && !rules_->splits(block, rounded);
}

void SegmentSpace::shrink_to(Bytes keep, bool may_wait) {
  std::vector<Block*> victims;
  rules_->choose_everything(blocks_, victims);
  const bool has_plain = std::ranges::any_of(victims, is_plain);
  const bool keeps_plain = !may_wait && has_plain && events_.progress().is_any_busy();
  if (may_wait && has_plain) events_.waits().prepare_device_wait();
  for (Block* block : victims) {
    if (ledger_.held() <= keep) return;
    if (keeps_plain && is_plain(block)) continue;
    if (!may_wait && !events_.progress().is_idle(block->stream)) continue;
    const Bytes most = ledger_.held() - keep;
    if (block->memory->is_expandable()) {
      unmap(block, most);
    } else if (block->size <= most) {
      release_segment(block);
    }
  }
}

void SegmentSpace::release_everything() {
  std::vector<Block*> victims;
  rules_->choose_everything(blocks_, victims);
  release(victims);
}

void SegmentSpace::release_bare_addresses() {
  std::vector<Block*> bare;
  for (const BlockGroup* group : {&blocks_.small, &blocks_.large})
    for (const auto& [place, block] : group->unmapped)
      if (block->is_whole_segment()) bare.push_back(block);
  for (Block* block : bare) release_segment(block);
}

Bytes SegmentSpace::largest_free() const {
  const std::size_t streams = std::max(blocks_.small.free.size(), blocks_.large.free.size());
  Bytes largest{0};
  for (std::size_t stream = 0; stream < streams; ++stream)
    largest = std::max(largest, largest_free(static_cast<StreamId>(stream)));
  return largest;
}

Bytes SegmentSpace::largest_free(StreamId stream) const {
  Bytes largest{0};
  for (const BlockGroup* group : {&blocks_.small, &blocks_.large})
    if (const FreeIndex* index = group->index_of(stream); index != nullptr && !index->is_empty())
      largest = std::max(largest, index->last()->size);
  return largest;
}

void SegmentSpace::change_access(const Devices& added, const Devices& removed) {
  std::vector<AddressRange> mappings;
  for (const auto& segment : segments_) static_cast<const ExpandableSegment&>(*segment).add_mapped(mappings);
  reach_.change_rights(mappings, added, removed);
}

ExportedRange SegmentSpace::export_chunks(const Block& block) const {
  if (!makes_exportable_chunks())
    throw Error(ErrorKind::config, "the device cannot pass the chunks of this pool to other processes");
  return static_cast<const ExpandableSegment&>(*block.memory)
      .export_pages({block.address, block.size}, device_number());
}

std::vector<UseOrder::Idle> SegmentSpace::least_recently_used() const {
  std::vector<Idle> idle;
  for (const Block* block : rules_->garbage(blocks_)) idle.push_back({{block->address, block->size}, block->stream});
  return idle;
}

std::uint64_t SegmentSpace::generation(const Block& block) const {
  // The number of the segment above, so that a new segment at old addresses is another generation.
  const std::uint64_t of_segment = (block.memory->serial + 1) << 32;
  if (!block.memory->is_expandable()) return of_segment;
  return of_segment + static_cast<const ExpandableSegment&>(*block.memory).generation({block.address, block.size});
}

SmallPart SegmentSpace::small_part() const {
  SmallPart part;
  blocks_.for_each([&](const Block& block) {
    if (!block.group->is_small) return;
    if (block.state != BlockState::unmapped) part.held = part.held + block.size;
    if (block.previous == nullptr) ++part.segments;
  });
  return part;
}

void SegmentSpace::run(const Step& step, Climb& climb) {
  Attempt& attempt = climb.attempt;
  attempt.has_failed = false;
  Tried tried{Tried::What::release, false};
  try {
    switch (step.kind) {
      case Step::Kind::new_segment:
        tried.what = Tried::What::new_segment;
        climb.block = add_segment(std::make_unique<PlainSegment>(PlainAllocation(device_, step.size)), step, climb);
        ledger_.add(step.size);
        watch_.holds_more(step.size, climb.group.is_small);
        watch_.allocated(climb.block->memory->range, climb.block->stream);
        break;
      case Step::Kind::new_expandable:
        tried.what = Tried::What::new_addresses;
        climb.block = add_segment(
            std::make_unique<ExpandableSegment>(device_, step.size, step.page, facets_.chunk_exports != nullptr), step,
            climb);
        break;
      case Step::Kind::map:
        tried.what = Tried::What::map;
        climb.block = map(step.block, step.size);
        break;
      case Step::Kind::release:
        release(climb.victims);
        break;
      case Step::Kind::take:
      case Step::Kind::next_rung:
        return;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.has_failed = true;
  }
  tried.has_failed = attempt.has_failed;
  attempt.tried.push_back(tried);
}

Block* SegmentSpace::add_segment(std::unique_ptr<SegmentMemory> memory, const Step& step, const Climb& climb) {
  const BlockState state = memory->is_expandable() ? BlockState::unmapped : BlockState::free;
  BlockGroup& group = climb.group.is_small ? blocks_.small : blocks_.large;
  if (memory->is_expandable()) memory->lone = lone_addresses_.take(memory->range.size);
  Block* block = blocks_.make(*memory, group, climb.attempt.request.stream, memory->range, state);
  if (!rules_->keeps_freed_memory()) block->give_back = GiveBack::with_calls;
  memory->place = segments_.size();
  memory->serial = step.serial.value_or(segments_made_);
  ++segments_made_;
  segments_.push_back(std::move(memory));
  blocks_.index(block);
  watch_.segment_made(group.is_small);
  return block;
}

Block* SegmentSpace::map(Block* unmapped, Bytes size) {
  auto& segment = static_cast<ExpandableSegment&>(*unmapped->memory);
  const AddressRange mapped = segment.map(unmapped->address, size, reach_.accessors());
  blocks_.unindex(unmapped);
  if (mapped.size < unmapped->size) blocks_.index(blocks_.cut_back(unmapped, mapped.size));
  unmapped->state = BlockState::free;
  blocks_.merge(unmapped);
  blocks_.index(unmapped);
  ledger_.add(mapped.size);
  watch_.holds_more(mapped.size, unmapped->group->is_small);
  watch_.mapped(mapped, unmapped->stream);
  return unmapped;
}

void SegmentSpace::release(const std::vector<Block*>& victims) {
  if (std::ranges::any_of(victims, is_plain)) events_.waits().prepare_device_wait();
  for (Block* block : victims) {
    if (!block->memory->is_expandable()) {
      release_segment(block);
    } else {
      unmap(block, block->size);
    }
  }
}

void SegmentSpace::release_segment(Block* block) {
  blocks_.unindex(block);
  if (block->memory->is_expandable()) {
    lone_addresses_.give_back(block->memory->lone);
  } else {
    ledger_.subtract(block->size);
    watch_.holds_less(block->size, block->group->is_small);
    watch_.released(block->memory->range, block->stream);
  }
  watch_.segment_gone(block->group->is_small);
  const std::size_t place = block->memory->place;
  std::swap(segments_[place], segments_.back());
  segments_[place]->place = place;
  segments_.pop_back();
  blocks_.destroy(block);
}

void SegmentSpace::unmap(Block* block, Bytes most) {
  auto& segment = static_cast<ExpandableSegment&>(*block->memory);
  AddressRange unmapped = segment.whole_pages({block->address, block->size});
  // Of a part, the rear pages go: what stays in front is joined with its neighbour more often.
  if (const Bytes part{most.count / segment.page.count * segment.page.count}; part < unmapped.size)
    unmapped = {unmapped.begin + (unmapped.size - part), part};
  if (unmapped.size.count == 0) return;
  if (!events_.waits().wait_for_stream(block->stream)) return;  // its own work may still be running on these pages
  segment.unmap(unmapped);
  ledger_.subtract(unmapped.size);
  watch_.holds_less(unmapped.size, block->group->is_small);
  watch_.unmapped(unmapped, block->stream);
  blocks_.unindex(block);
  if (const Bytes before = unmapped.begin - block->address; before.count > 0)
    blocks_.index(blocks_.cut_front(block, before));
  if (block->size > unmapped.size) blocks_.index(blocks_.cut_back(block, unmapped.size));
  block->state = BlockState::unmapped;
  blocks_.merge(block);
  blocks_.index(block);
  if (block->is_whole_segment()) release_segment(block);
}

}  // namespace memlake
