// The part of LivePool for callers that know their memory only by its address: the path of the C ABI. It locks once and
// allocates no heap memory per operation.

#include <sstream>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"
#include "runtime/live_pool.hpp"

namespace memlake {

StreamName LivePool::name_of(CUstream stream) const {
  if (devices_.size() == 1 || !is_created(stream)) [[likely]]
    return {.handle = stream};
  // Of several devices the driver says which one a stream works on, by its context.
  static_cast<void>(is_capturing({.handle = stream}));  // refuses a handle that names no stream
  Driver& driver = given_.front()->driver();
  CUcontext context = nullptr;
  const CUresult result = driver.cuStreamGetCtx(stream, &context);
  if (result != CUDA_ERROR_NOT_SUPPORTED) check(driver, Call::cuStreamGetCtx, result);
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (context != nullptr && devices_[i]->context() == context) return {.handle = stream, .device = i};
  throw Error(ErrorKind::invalid_argument,
              "the stream is not of the primary context of a device of this pool; use a stream of one of its devices, "
              "or the default stream");
}

Address LivePool::allocate_at(Bytes requested, CUstream stream) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  if (stream != nullptr) require_not_capturing(name_of(stream));
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const StreamId number = stream == nullptr ? 0 : streams_.number_of(name_of(stream));
  by_address_.make_room();
  Block* const block = pool_->allocate(requested, number);
  if (block == nullptr) [[unlikely]]
    refuse_for_lack_of_memory();
  by_address_.insert(block->address, block);
  return block->address;
}

void LivePool::refuse_for_lack_of_memory() { throw NoMemory{shortage_locked()}; }

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
  const StreamId user = place.block->user;
  if (streams_.handle_of(user) != nullptr && streams_.is_alive(user))
    require_not_capturing({.handle = streams_.handle_of(user)});
  pool_->free(place.block, user);
  by_address_.remove(place);
}

void LivePool::free_at(Address address, CUstream stream) {
  if (!try_free_at(address, stream)) refuse(address);
}

bool LivePool::try_free_at(Address address, CUstream stream) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  if (stream != nullptr) require_not_capturing(name_of(stream));
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const AddressTable::Place place = by_address_.find(address);
  if (place.block == nullptr) [[unlikely]]
    return false;
  // Its own stream by the number it has there: of a handle alone it cannot be known whether its stream is the same.
  const StreamId user = place.block->user;
  const bool is_own = streams_.handle_of(user) == stream;
  pool_->free(place.block, is_own ? user : streams_.number_of(name_of(stream)));
  by_address_.remove(place);
  return true;
}

void LivePool::record_use_at(Address address, CUstream stream) {
  require_usable();
  const StreamName name = name_of(stream);
  static_cast<void>(is_capturing(name));  // found out when the memory is freed, a bad handle would be too late
  const auto lock = open_lock();
  pool_->record_use(place_of(address).block, streams_.number_of(name));
}

AddressRange LivePool::segment_at(Address address) const {
  const auto lock = open_lock();
  const SegmentMemory& memory = *place_of(address).block->memory;
  if (memory.is_expandable())
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
