#include "runtime/memory_by_address.hpp"

#include <sstream>

#include "base/error.hpp"
#include "runtime/stream_numbers.hpp"
#include "runtime/waiting.hpp"

namespace memlake {

template <class Choose>
Address MemoryByAddress::serve(Bytes requested, CUstream stream, bool counts_refusal, Choose&& choose) {
  auto lock = locked_.open_lock();
  const StreamId number = number_of(locked_, stream, false);
  table_.make_room();
  Block* block = locked_.pool().take_free(choose(number), requested, number);
  if (block == nullptr) [[unlikely]]
    block = serve_with_waits(locked_, sharing_, lock, [&]() -> Space& { return choose(number); }, requested, number);
  if (block == nullptr) [[unlikely]]
    refuse_for_lack_of_memory(counts_refusal);
  table_.insert(block->address, block);
  return block->address;
}

Address MemoryByAddress::allocate(Bytes requested, CUstream stream, bool counts_refusal) {
  return serve(requested, stream, counts_refusal, [&](StreamId number) -> Space& {
    const auto graph_pool = graphs_.pool_for(stream);
    return graph_pool ? graphs_.space_for(*graph_pool, number) : locked_.pool().spaces().by_default();
  });
}

Address MemoryByAddress::allocate_from_graph_pool(GraphPoolId id, Bytes requested, CUstream stream,
                                                  bool counts_refusal) {
  return serve(requested, stream, counts_refusal, [&](StreamId number) -> Space& {
    graphs_.require_used(id);
    return graphs_.space_for(id, number);
  });
}

void MemoryByAddress::refuse_for_lack_of_memory(bool is_counted) {
  if (!is_counted) locked_.pool().figures().uncount_refusal();
  throw NoMemory{locked_.shortage()};
}

AddressTable::Place MemoryByAddress::place_of(Address address) const {
  if (const AddressTable::Place place = table_.find(address); place.block != nullptr) [[likely]]
    return place;
  refuse(address);
}

void MemoryByAddress::refuse(Address address) {
  std::ostringstream text;
  text << "nothing of this pool is at 0x" << std::hex << address.value
       << ": it was freed already, or is not the beginning of an allocation, or is somebody else's";
  throw Error(ErrorKind::invalid_free, text.str());
}

void MemoryByAddress::free(Address address) {
  const auto lock = locked_.open_lock();
  const AddressTable::Place place = place_of(address);
  locked_.pool().free_finally(place.block, place.block->user);
  table_.remove(place);
}

bool MemoryByAddress::release(Address address, FoundBlock* found) {
  const auto lock = locked_.lock_if_open();
  if (!lock) [[unlikely]]
    return false;
  const AddressTable::Place place = table_.find(address);
  if (place.block == nullptr) return false;
  if (found != nullptr)
    *found = found_block(locked_.streams().table, locked_.pool().spaces().of(*place.block), *place.block);
  locked_.pool().free_finally(place.block, place.block->user);
  table_.remove(place);
  return true;
}

bool MemoryByAddress::find(Address address, FoundBlock* found) const {
  const auto lock = locked_.lock_if_open();
  if (!lock) [[unlikely]]
    return false;
  const AddressTable::Place place = table_.find(address);
  if (place.block == nullptr) return false;
  if (found != nullptr)
    *found = found_block(locked_.streams().table, locked_.pool().spaces().of(*place.block), *place.block);
  return true;
}

void MemoryByAddress::free(Address address, CUstream stream) {
  if (!try_free(address, stream)) refuse(address);
}

bool MemoryByAddress::try_free(Address address, CUstream stream) {
  const auto lock = locked_.open_lock();
  const AddressTable::Place place = table_.find(address);
  if (place.block == nullptr) [[unlikely]]
    return false;
  // Its own stream by the number it has there: of a handle alone it cannot be known whether its stream is the same.
  const StreamId user = place.block->user;
  StreamId number = user;
  if (locked_.streams().table.handle_of(user) != stream) {
    number = number_for_free(locked_, stream);
  } else if (stream == kPerThreadStream) [[unlikely]] {
    // It may be another thread's. Then the memory is free behind the work of both.
    locked_.pool().record_use(place.block, number_for_free(locked_, stream));
  }
  locked_.pool().free_finally(place.block, number);
  table_.remove(place);
  return true;
}

void MemoryByAddress::record_use(Address address, CUstream stream) {
  const auto lock = locked_.open_lock();
  // Asked of a new stream at once: found out when the memory is freed, a bad handle would be too late.
  locked_.pool().record_use(place_of(address).block, number_of(locked_, stream, true));
}

AddressRange MemoryByAddress::segment_of(Address address) const {
  const auto lock = locked_.open_lock();
  const SegmentMemory& memory = *place_of(address).block->memory;
  if (!memory.is_one_allocation())
    throw Error(ErrorKind::invalid_argument,
                "this memory is made of pages, so it is not part of one allocation of the driver; the policy caching "
                "makes allocations of one piece");
  return memory.range;
}

ExportedRange MemoryByAddress::export_chunks(Address address) const {
  const auto lock = locked_.open_lock();
  const Block& block = *place_of(address).block;
  const ChunkExports* exports = locked_.pool().spaces().of(block).facets().chunk_exports;
  if (exports == nullptr)
    throw Error(ErrorKind::config,
                "the policy " + locked_.policy_text() + " has no chunks for other processes; lake has");
  return exports->export_chunks(block);
}

void MemoryByAddress::restore(GraphPoolId id, std::span<const EarlierAllocation> earlier,
                              const std::function<void(const FoundBlock&)>& before_free) {
  const auto lock = locked_.open_lock();
  graphs_.require_used(id);
  std::vector<EarlierBlock> blocks;
  blocks.reserve(earlier.size());
  for (const EarlierAllocation& allocation : earlier)
    blocks.push_back({allocation.range, allocation.requested, number_of(locked_, allocation.stream, false)});
  std::vector<Block*> live;
  std::vector<Address> freed;
  for (const auto& space : locked_.pool().spaces()) {
    if (space->graph_pool() == nullptr || space->graph_pool()->id != id) continue;
    space->for_each([&](const Block& block) {
      if (block.state != BlockState::live) return;
      live.push_back(table_.find(block.address).block);
      freed.push_back(block.address);
      if (live.back() == nullptr)
        throw Error(ErrorKind::invalid_argument, "a buffer object has memory of the graph pool " + id.text() +
                                                     ", which only its close() may free; close it first");
    });
  }
  const auto decided = [&] {
    table_.make_room(blocks.size());
    for (const Block* block : live)
      before_free(found_block(locked_.streams().table, locked_.pool().spaces().of(*block), *block));
    for (const Address address : freed) table_.remove(table_.find(address));
  };
  for (Block* block : locked_.pool().restore(id, live, blocks, decided)) table_.insert(block->address, block);
}

}  // namespace memlake
