// The part of LivePool for callers that know their memory only by its address: the path of the C ABI. It locks once and
// allocates no heap memory per operation. It calls the driver neither for an allocation from cached memory nor for a
// free in the order of the memory's own stream.

#include <sstream>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"
#include "runtime/live_pool_waiting.hpp"

namespace memlake {

StreamId LivePool::number_of(CUstream stream, bool may_be_elsewhere) {
  if (stream == nullptr) return 0;
  if (is_created(stream)) [[likely]]
    if (const auto known = streams_.known_number_of(stream))
      if (may_be_elsewhere || streams_.device_of(*known) < devices_.size()) [[likely]]
        return *known;
  return number_of(StreamName{.handle = stream}, may_be_elsewhere);
}

StreamId LivePool::number_for_free(CUstream stream) {
  try {
    return number_of(stream, true);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    // Its work may still be running.
    const StreamId number = streams_.number_of({.handle = stream});
    streams_.note_end(number);
    return number;
  }
}

template <class Choose>
Address LivePool::allocate_by_address(Bytes requested, CUstream stream, bool counts_refusal, Choose&& choose) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  std::unique_lock lock(mutex_);
  require_open_locked();
  const StreamId number = number_of(stream, false);
  by_address_.make_room();
  Block* block = pool_->allocate_free(choose(number), requested, number);
  if (block == nullptr) [[unlikely]]
    block = allocate_waiting(lock, [&]() -> Space& { return choose(number); }, requested, number);
  if (block == nullptr) [[unlikely]]
    refuse_for_lack_of_memory(counts_refusal);
  by_address_.insert(block->address, block);
  return block->address;
}

Address LivePool::allocate_at(Bytes requested, CUstream stream, bool counts_refusal) {
  return allocate_by_address(requested, stream, counts_refusal, [&](StreamId number) -> Space& {
    const auto graph_pool = graph_pool_for(stream);
    return graph_pool ? graph_space(*graph_pool, number) : pool_->default_space();
  });
}

Address LivePool::allocate_in_graph_pool(GraphPoolId id, Bytes requested, CUstream stream, bool counts_refusal) {
  return allocate_by_address(requested, stream, counts_refusal, [&](StreamId number) -> Space& {
    require_graph_pool(id);
    return graph_space(id, number);
  });
}

void LivePool::refuse_for_lack_of_memory(bool is_counted) {
  if (!is_counted) pool_->uncount_refusal();
  throw NoMemory{shortage_locked()};
}

AddressTable::Place LivePool::place_of(Address address) const {
  if (const AddressTable::Place place = by_address_.find(address); place.block != nullptr) [[likely]]
    return place;
  refuse(address);
}

void LivePool::refuse(Address address) {
  std::ostringstream text;
  text << "nothing of this pool is at 0x" << std::hex << address.value
       << ": it was freed already, or is not the beginning of an allocation, or is somebody else's";
  throw Error(ErrorKind::invalid_free, text.str());
}

void LivePool::free_at(Address address) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const AddressTable::Place place = place_of(address);
  pool_->free_finally(place.block, place.block->user);
  by_address_.remove(place);
}

bool LivePool::release_at(Address address, FoundBlock* found_block) {
  if (!can_undo()) [[unlikely]]
    return false;
  const std::lock_guard lock(mutex_);
  if (!pool_) [[unlikely]]
    return false;
  const AddressTable::Place place = by_address_.find(address);
  if (place.block == nullptr) return false;
  if (found_block != nullptr) *found_block = found(pool_->space_of(*place.block), *place.block);
  pool_->free_finally(place.block, place.block->user);
  by_address_.remove(place);
  return true;
}

bool LivePool::find_at(Address address, FoundBlock* found_block) const {
  if (!can_undo()) [[unlikely]]
    return false;
  const std::lock_guard lock(mutex_);
  if (!pool_) [[unlikely]]
    return false;
  const AddressTable::Place place = by_address_.find(address);
  if (place.block == nullptr) return false;
  if (found_block != nullptr) *found_block = found(pool_->space_of(*place.block), *place.block);
  return true;
}

FoundBlock LivePool::found(const Space& space, const Block& block) const {
  const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
  const auto& graph_pool = space.graph_pool();
  return {.range = {block.address, block.size},
          .requested = is_used ? block.requested : Bytes{0},
          .stream = streams_.handle_of(is_used ? block.user : block.stream),
          .segment = block.memory->range,
          .state = is_used ? block.state : BlockState::free,
          .is_small = block.group->is_small || (is_used && SizeCounts::is_small(block.requested)),
          .is_one_allocation = block.memory->is_one_allocation(),
          .graph_pool = graph_pool == nullptr ? GraphPoolId{} : graph_pool->id};
}

void LivePool::free_at(Address address, CUstream stream) {
  if (!try_free_at(address, stream)) refuse(address);
}

bool LivePool::try_free_at(Address address, CUstream stream) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const AddressTable::Place place = by_address_.find(address);
  if (place.block == nullptr) [[unlikely]]
    return false;
  // Its own stream by the number it has there: of a handle alone it cannot be known whether its stream is the same.
  const StreamId user = place.block->user;
  StreamId number = user;
  if (streams_.handle_of(user) != stream) {
    number = number_for_free(stream);
  } else if (stream == kPerThreadStream) [[unlikely]] {
    // It may be another thread's. Then the memory is free behind the work of both.
    pool_->record_use(place.block, number_for_free(stream));
  }
  pool_->free_finally(place.block, number);
  by_address_.remove(place);
  return true;
}

void LivePool::record_use_at(Address address, CUstream stream) {
  const auto lock = open_lock();
  // Asked of a new stream at once: found out when the memory is freed, a bad handle would be too late.
  pool_->record_use(place_of(address).block, number_of(stream, true));
}

AddressRange LivePool::segment_at(Address address) const {
  const auto lock = open_lock();
  const SegmentMemory& memory = *place_of(address).block->memory;
  if (!memory.is_one_allocation())
    throw Error(ErrorKind::invalid_argument,
                "this memory is made of pages, so it is not part of one allocation of the driver; the policy caching "
                "makes allocations of one piece");
  return memory.range;
}

bool LivePool::is_allocated(Address address) const {
  if (!can_undo()) return false;
  const std::lock_guard lock(mutex_);
  return by_address_.find(address).block != nullptr;
}

}  // namespace memlake
