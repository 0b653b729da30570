// What a live pool does for callers that know their memory by its address alone: the path of the C ABI. One lock, and no
// memory of the heap per operation.

#include <sstream>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "live/live_pool.hpp"

namespace memlake {

Address LivePool::allocate_at(Bytes requested, CUstream stream) {
  if (!device_->can_undo()) [[unlikely]]
    require_usable();
  if (stream != nullptr) require_not_capturing({.handle = stream});
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const StreamId number = stream == nullptr ? 0 : streams_.number_of({.handle = stream});
  by_address_.make_room();
  Block* const block = pool_->allocate(requested, number);
  if (block == nullptr) [[unlikely]]
    refuse_for_lack_of_memory();
  by_address_.insert(block->address, block);
  return block->address;
}

void LivePool::refuse_for_lack_of_memory() {
  pool_->space().release_bare_addresses();
  throw NoMemory{shortage_locked()};
}

Block* LivePool::block_at(Address address) const {
  if (Block* block = by_address_.find(address)) [[likely]]
    return block;
  refuse(address);
}

void LivePool::refuse(Address address) {
  std::ostringstream text;
  text << "nothing of this pool is at 0x" << std::hex << address.value
       << ": it was freed already, or is not the beginning of an allocation, or is somebody else's";
  throw Error(ErrorKind::invalid_free, text.str());
}

void LivePool::free_locked(Block* block, StreamId stream) {
  const Address address = block->address;  // a free block may be joined with its neighbours
  pool_->free(block, stream);
  by_address_.remove(address);
}

void LivePool::free_at(Address address) {
  if (!device_->can_undo()) [[unlikely]]
    require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  Block* const block = block_at(address);
  if (const CUstream stream = streams_.handle_of(block->user); stream != nullptr && streams_.is_alive(block->user))
    require_not_capturing({.handle = stream});
  free_locked(block, block->user);
}

void LivePool::free_at(Address address, CUstream stream) {
  if (!try_free_at(address, stream)) refuse(address);
}

bool LivePool::try_free_at(Address address, CUstream stream) {
  if (!device_->can_undo()) [[unlikely]]
    require_usable();
  if (stream != nullptr) require_not_capturing({.handle = stream});
  const std::lock_guard lock(mutex_);
  require_open_locked();
  Block* const block = by_address_.find(address);
  if (block == nullptr) [[unlikely]]
    return false;
  // Its own stream by the number it has there: of a handle alone it cannot be known whether its stream is the same.
  const bool is_own = streams_.handle_of(block->user) == stream;
  free_locked(block, is_own ? block->user : streams_.number_of({.handle = stream}));
  return true;
}

void LivePool::record_use_at(Address address, CUstream stream) {
  require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  pool_->record_use(block_at(address), streams_.number_of({.handle = stream}));
}

AddressRange LivePool::segment_at(Address address) const {
  require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const SegmentMemory& memory = *block_at(address)->memory;
  if (memory.is_expandable())
    throw Error(ErrorKind::invalid_argument,
                "this memory is made of pages, so it is not part of one allocation of the driver; the policy caching "
                "makes allocations of one piece");
  return memory.range;
}

bool LivePool::is_allocated(Address address) const {
  if (!device_->can_undo()) return false;
  const std::lock_guard lock(mutex_);
  return by_address_.find(address) != nullptr;
}

}  // namespace memlake
