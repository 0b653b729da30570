#include "policies/stitch/primitive_blocks.hpp"

#include <utility>

namespace memlake {

Bytes PrimitiveBlocks::free_bytes_of(StreamId stream) const {
  Bytes sum{0};
  const FreeIndex* index = free_of(stream);
  for (const Block* block = index == nullptr ? nullptr : index->first(); block != nullptr; block = index->after(block))
    sum = sum + block->size;
  return sum;
}

Block* PrimitiveBlocks::find_unmapped(StreamId stream, Bytes size) const {
  const auto& unmapped = map_.large.unmapped;
  for (auto at = unmapped.lower_bound({stream, 0}); at != unmapped.end() && at->first.first == stream; ++at)
    if (at->second->size >= size) return at->second;
  return nullptr;
}

void PrimitiveBlocks::grow(StreamId stream, Bytes size) {
  if (Block* block = find_unmapped(stream, size)) {
    segment_of(*block).map(block->address, size, {&device_, 1});
    watch.mapped({block->address, size}, stream);
    put_back(cut_out(block, {block->address, size}), BlockState::free);
    return;
  }
  auto segment = std::make_unique<PrimitiveSegment>(device_, size, chunk_);
  segment->map(segment->range.begin, size, {&device_, 1});
  segment->lone = segment->range.begin;
  segment->place = segments_.size();
  segment->serial = segments_made_++;
  Block* block = map_.make(*segment, map_.large, stream, segment->range, BlockState::free);
  segment->begins(block);
  segments_.push_back(std::move(segment));
  map_.index(block);
  watch.segment_made(false);
  watch.mapped({block->address, size}, stream);
}

Block* PrimitiveBlocks::cut_out(Block* block, AddressRange run) {
  PrimitiveSegment& segment = segment_of(*block);
  map_.unindex(block);
  if (block->address < run.begin) {
    Block* before = map_.cut_front(block, run.begin - block->address);
    segment.begins(before);
    segment.begins(block);
    map_.index(before);
  }
  if (block->size == run.size) return block;
  Block* front = map_.cut_front(block, run.size);
  segment.begins(front);
  segment.begins(block);
  map_.index(block);
  return front;
}

void PrimitiveBlocks::put_back(Block* block, BlockState state) {
  PrimitiveSegment& segment = segment_of(*block);
  const Address begin = block->address;
  const Address end = block->end();
  block->state = state;
  map_.merge(block);
  if (block->address != begin) segment.begins_no_more(begin);
  if (block->end() != end) segment.begins_no_more(end);
  segment.begins(block);
  map_.index(block);
}

void PrimitiveBlocks::release(Block* block, AddressRange run) {
  PrimitiveSegment& segment = segment_of(*block);
  segment.unmap(run);
  watch.unmapped(run, block->stream);
  Block* hole = cut_out(block, run);
  put_back(hole, BlockState::unmapped);
  if (hole->is_whole_segment()) remove_segment(hole);
}

void PrimitiveBlocks::remove_segment(Block* block) {
  map_.unindex(block);
  watch.segment_gone(false);
  const std::size_t place = block->memory->place;
  std::swap(segments_[place], segments_.back());
  segments_[place]->place = place;
  segments_.pop_back();
  map_.destroy(block);
}

}  // namespace memlake
