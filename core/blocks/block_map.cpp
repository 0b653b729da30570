#include "blocks/block_map.hpp"

namespace memlake {

Block* BlockMap::take_from_store() {
  if (unused_.empty()) return &store_.emplace_back();
  Block* block = unused_.back();
  unused_.pop_back();
  return block;
}

Block* BlockMap::make(SegmentMemory& memory, BlockGroup& group, StreamId stream, AddressRange range, BlockState state) {
  Block* block = take_from_store();
  block->address = range.begin;
  block->size = range.size;
  block->requested = {0};
  block->group = &group;
  block->memory = &memory;
  block->previous = nullptr;
  block->next = nullptr;
  block->stream = stream;
  block->state = state;
  block->give_back = GiveBack::cached;
  block->awaited = 0;
  block->users.clear();
  return block;
}

std::pair<StreamId, std::uint64_t> BlockMap::place_of(const Block& unmapped) {
  const SegmentMemory& memory = *unmapped.memory;
  return {unmapped.stream, (memory.lone + (unmapped.address - memory.range.begin)).value};
}

void BlockMap::destroy(Block* block) {
  block->memory = nullptr;
  unused_.push_back(block);
}

void BlockMap::index(Block* block) {
  BlockGroup& group = *block->group;
  if (block->state == BlockState::unmapped) {
    group.unmapped.emplace(place_of(*block), block);
    return;
  }
  if (group.free.size() <= block->stream) group.free.resize(block->stream + 1);
  auto& index = group.free[block->stream];
  if (index == nullptr) index = std::make_unique<FreeIndex>();
  block->idle_since = group.searches;
  index->insert(block);
}

void BlockMap::unindex(Block* block) {
  BlockGroup& group = *block->group;
  if (block->state == BlockState::unmapped) {
    group.unmapped.erase(place_of(*block));
  } else {
    group.free[block->stream]->erase(block);
  }
}

Block* BlockMap::cut_front(Block* block, Bytes size) {
  Block* front = make(*block->memory, *block->group, block->stream, {block->address, size}, block->state);
  front->previous = block->previous;
  front->next = block;
  if (front->previous != nullptr) front->previous->next = front;
  block->previous = front;
  block->address = block->address + size;
  block->size = block->size - size;
  return front;
}

Block* BlockMap::cut_back(Block* block, Bytes size) {
  Block* back =
      make(*block->memory, *block->group, block->stream, {block->address + size, block->size - size}, block->state);
  back->previous = block;
  back->next = block->next;
  if (back->next != nullptr) back->next->previous = back;
  block->next = back;
  block->size = size;
  return back;
}

void BlockMap::swallow(Block* block, Block* neighbour) {
  unindex(neighbour);
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous != nullptr) block->previous->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->previous = block;
  }
  block->size = block->size + neighbour->size;
  destroy(neighbour);
}

void BlockMap::merge(Block* block) {
  if (block->previous != nullptr && block->previous->state == block->state) swallow(block, block->previous);
  if (block->next != nullptr && block->next->state == block->state) swallow(block, block->next);
}

}  // namespace memlake
