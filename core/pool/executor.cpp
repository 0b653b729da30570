// The part of Pool that acts: it carries out one step of a policy and keeps blocks, owners and counters in agreement. A
// step that fails leaves everything as it was.

#include "base/error.hpp"
#include "pool/pool.hpp"

namespace memlake {

void Pool::run(const Step& step, Attempt& attempt) {
  try {
    switch (step.kind) {
      case Step::Kind::new_segment:
        attempt.block = add_segment(std::make_unique<PlainSegment>(PlainAllocation(device_, step.size)), step, attempt);
        stats_.held.add(step.size);
        break;
      case Step::Kind::new_expandable:
        attempt.block = add_segment(std::make_unique<ExpandableSegment>(device_, step.size, step.page), step, attempt);
        break;
      case Step::Kind::map:
        attempt.block = map(step.block, step.size);
        break;
      case Step::Kind::wait_for_events:
        wait_for_events();
        break;
      case Step::Kind::release:
        release(attempt.victims);
        break;
      case Step::Kind::take:
      case Step::Kind::fail:
        break;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.has_failed = true;
  }
}

Block* Pool::add_segment(std::unique_ptr<SegmentMemory> memory, const Step& step, const Attempt& attempt) {
  const BlockState state = memory->is_expandable() ? BlockState::unmapped : BlockState::free;
  BlockGroup& group = attempt.group->is_small ? blocks_.small : blocks_.large;
  if (memory->is_expandable()) memory->lone = lone_addresses_.take(memory->range.size);
  Block* block = blocks_.make(*memory, group, attempt.request.stream, memory->range, state);
  memory->place = segments_.size();
  memory->serial = step.serial.value_or(segments_made_);
  ++segments_made_;
  segments_.push_back(std::move(memory));
  blocks_.index(block);
  return block;
}

Block* Pool::map(Block* unmapped, Bytes size) {
  auto& segment = static_cast<ExpandableSegment&>(*unmapped->memory);
  const AddressRange mapped = segment.map(unmapped->address, size);
  blocks_.unindex(unmapped);
  if (mapped.size < unmapped->size) blocks_.index(blocks_.cut_back(unmapped, mapped.size));
  unmapped->state = BlockState::free;
  blocks_.merge(unmapped);
  blocks_.index(unmapped);
  stats_.held.add(mapped.size);
  return unmapped;
}

void Pool::release(const std::vector<Block*>& victims) {
  for (Block* block : victims) {
    if (!block->memory->is_expandable()) {
      release_segment(block);
    } else {
      unmap(block, block->size);
    }
  }
}

void Pool::release_segment(Block* block) {
  blocks_.unindex(block);
  if (block->memory->is_expandable()) {
    lone_addresses_.give_back(block->memory->lone);
  } else {
    stats_.held.subtract(block->size);
  }
  const std::size_t place = block->memory->place;
  std::swap(segments_[place], segments_.back());
  segments_[place]->place = place;
  segments_.pop_back();
  blocks_.destroy(block);
}

void Pool::unmap(Block* block, Bytes most) {
  auto& segment = static_cast<ExpandableSegment&>(*block->memory);
  AddressRange unmapped = segment.whole_pages({block->address, block->size});
  // Of a part, the rear pages go: what stays in front is joined with its neighbour more often.
  if (const Bytes part{most.count / segment.page.count * segment.page.count}; part < unmapped.size)
    unmapped = {unmapped.begin + (unmapped.size - part), part};
  if (unmapped.size.count == 0) return;
  events_.wait_for_stream(block->stream);  // its own work may still be running on these pages
  segment.unmap(unmapped);
  stats_.held.subtract(unmapped.size);
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
