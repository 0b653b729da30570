// The part of LivePool for callers that know their memory only by its address: the path of the C ABI. It locks once and
// allocates no heap memory per operation. It calls the driver neither for an allocation from cached memory nor for a
// free in the order of the memory's own stream.

#include <sstream>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"
#include "runtime/live_pool.hpp"

namespace memlake {

StreamName LivePool::name_of(CUstream stream) const {
  if (stream == kPerThreadStream) return {.handle = stream, .thread = this_thread_number()};
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

StreamId LivePool::number_of(CUstream stream, bool is_checked) {
  if (stream == nullptr) return 0;
  if (devices_.size() == 1 && is_created(stream)) [[likely]]
    if (const auto known = streams_.known_number_of(stream)) [[likely]]
      return *known;
  const StreamName name = name_of(stream);
  if (const auto known = streams_.known_number_of(name)) return *known;
  if (is_checked) static_cast<void>(is_capturing(name));
  return streams_.number_of(name);
}

Address LivePool::allocate_at(Bytes requested, CUstream stream, bool counts_refusal) {
  if (!can_undo()) [[unlikely]]
    require_usable();
  const std::lock_guard lock(mutex_);
  require_open_locked();
  const StreamId number = number_of(stream, true);
  by_address_.make_room();
  Block* const block = pool_->allocate(requested, number);
  if (block == nullptr) [[unlikely]]
    refuse_for_lack_of_memory(counts_refusal);
  by_address_.insert(block->address, block);
  return block->address;
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
  if (found_block != nullptr) *found_block = found(*place.block);
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
  if (found_block != nullptr) *found_block = found(*place.block);
  return true;
}

FoundBlock LivePool::found(const Block& block) const {
  const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
  return {.range = {block.address, block.size},
          .requested = is_used ? block.requested : Bytes{0},
          .stream = streams_.handle_of(is_used ? block.user : block.stream),
          .segment = block.memory->range,
          .state = is_used ? block.state : BlockState::free,
          .is_small = block.group->is_small || (is_used && SizeCounts::is_small(block.requested)),
          .is_one_allocation = block.memory->is_one_allocation()};
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
    number = number_of(stream, false);
  } else if (stream == kPerThreadStream) [[unlikely]] {
    // It may be another thread's. Then the memory is free behind the work of both.
    pool_->record_use(place.block, number_of(stream, false));
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
