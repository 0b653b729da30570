#include "process/memory_map.hpp"

#include <algorithm>

namespace memlake::emulator {

namespace {

/// Whether one copy may go on from a chunk to the next one.
bool can_span(const Chunk& one, const Chunk& next) {
  return one.device == next.device || !(one.lacks(Lack::spanning_copies) || next.lacks(Lack::spanning_copies));
}

}  // namespace

MemoryMap::Step MemoryMap::look(std::uint64_t address, Moment moment) const {
  if (!arena_.contains(address)) {
    const HostAllocation* host = plain_.find_host(address);
    return {.end = host != nullptr ? host->address + host->size : UINT64_MAX, .host = host};
  }
  if (const Mapping* mapping = mappings_.find(address)) {
    const auto part = std::ranges::find_if(mapping->parts, [&](const auto& p) { return address - p.address < p.size; });
    return {.end = part->address + part->size, .mapping = mapping, .part = &*part};
  }
  if (const PoolAllocation* pooled = pools_.allocations().find(address))
    return {.end = pooled->address + pooled->size, .pooled = pooled};
  const Allocation* allocation = moment == Moment::call ? plain_.find(address) : plain_.find_for_work(address);
  if (allocation != nullptr) return {.end = allocation->address + allocation->size, .allocation = allocation};
  return {.end = address};
}

bool MemoryMap::is_managed(std::uint64_t address) const { return end_of_managed(address, 1) > address; }

std::uint64_t MemoryMap::end_of_managed(std::uint64_t address, std::uint64_t size) const {
  std::uint64_t at = address;
  while (at < address + size && arena_.contains(at)) {
    const Step step = look(at, Moment::call);
    const bool is_managed = (step.allocation != nullptr && step.allocation->is_managed) ||
                            (step.pooled != nullptr && step.pooled->pool->is_managed());
    if (!is_managed) break;
    at = step.end;
  }
  return std::min(at, address + size);
}

bool MemoryMap::is_host_address(std::uint64_t address) const {
  return !is_device_address(address) || is_managed(address);
}

bool MemoryMap::is_device_reachable(std::uint64_t address) const {
  return arena_.contains(address) || plain_.find_host(address) != nullptr;
}

bool MemoryMap::is_device_address(std::uint64_t address) const {
  if (!arena_.contains(address)) return false;
  const PoolAllocation* pooled = pools_.allocations().find(address);
  return pooled == nullptr || !pooled->pool->is_host();
}

bool MemoryMap::is_pinned(std::uint64_t address, std::uint64_t size) const {
  if (const PoolAllocation* pooled = pools_.allocations().find(address))
    return pooled->pool->is_host() && pooled->contains(address, size);
  const HostAllocation* host = plain_.find_host(address);
  return host != nullptr && address + size <= host->address + host->size;
}

bool MemoryMap::is_same_kind(std::uint64_t base, std::uint64_t address) const {
  if (arena_.contains(base) != arena_.contains(address)) return false;
  const HostAllocation* pinned = plain_.find_host(base);
  return pinned == nullptr || plain_.find_host(address) == pinned;
}

std::string MemoryMap::why_not_pooled(const Context& context, const PoolAllocation& pooled, const Touch& touch,
                                      bool is_kernel) {
  if (!pooled.contains(touch.address, touch.size))
    return text("the range from ", Hex{touch.address}, " to ", Hex{touch.address + touch.size},
                " runs over the end of the allocation at ", Hex{pooled.address}, ", ",
                Hex{pooled.address + pooled.size});
  const Pool& pool = *pooled.pool;
  if (pool.is_host() && !is_kernel) return "";  // every copy engine can access host memory
  const unsigned wanted = touch.is_write ? 3 : 1;
  const unsigned granted = pooled.access_of(context.device->ordinal);
  if ((granted & wanted) == wanted) return "";
  return text("device ", context.device->ordinal, " has ", granted == 0 ? "no" : "only read", " access to the pool of ",
              Hex{touch.address}, "; grant it with cuMemPoolSetAccess");
}

std::string MemoryMap::why_gone(const Touch& touch) const {
  const bool was_plain = plain_.find(touch.address) == nullptr && plain_.find_for_work(touch.address) != nullptr;
  const bool was_pooled = pools_.allocations().find(touch.address) == nullptr &&
                          pools_.allocations().find_leaving(touch.address, touch.size) != nullptr;
  return was_plain || was_pooled ? text("the memory at ", Hex{touch.address}, " was freed before (cuMemFreeAsync)")
                                 : "";
}

std::string MemoryMap::why_not_mapped(const Context& context, const Step& step, std::uint64_t address, bool is_write) {
  const unsigned wanted = is_write ? 3 : 1;
  const unsigned granted = step.part->rights.of(context.device->ordinal);
  if ((granted & wanted) == wanted) return "";
  return text("device ", context.device->ordinal, " has ", granted == 0 ? "no" : "only read", " access at ",
              Hex{address}, " (the mapping at ", Hex{step.mapping->address}, "); grant it with cuMemSetAccess");
}

std::string MemoryMap::why_not_plain(const Context& context, const Allocation& allocation, const Touch& touch,
                                     std::uint64_t address, bool is_kernel) {
  const std::uint64_t end = touch.address + touch.size;
  const std::uint64_t end_of_allocation = allocation.address + allocation.size;
  if (end > end_of_allocation)
    return text("the range from ", Hex{touch.address}, " to ", Hex{end}, " runs over the end of the allocation at ",
                Hex{allocation.address}, ", ", Hex{end_of_allocation});
  // An opened handle reaches the memory of a peer as well (CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS).
  const bool is_own = allocation.device == context.device || allocation.is_managed ||
                      (allocation.imported != nullptr && allocation.context == context.handle);
  if (!is_kernel || is_own || context.peers.contains(allocation.context)) return "";
  return text("device ", context.device->ordinal, " has no peer access to ", Hex{address}, " on device ",
              allocation.device->ordinal);
}

std::string MemoryMap::why_not_unknown(const Touch& touch, std::uint64_t address, bool is_kernel) const {
  if (arena_.contains(address)) {
    const bool is_reserved = mappings_.find_reservation(address) != nullptr;
    return text("nothing is ", is_reserved ? "mapped" : "allocated", " at ", Hex{address});
  }
  if (is_kernel) return text(Hex{address}, " is pageable host memory, out of a device's reach");
  if (address == touch.address) return "";  // a copy engine can access all memory of the program
  return text("the range from ", Hex{touch.address}, " to ", Hex{touch.address + touch.size},
              " runs over the end of the pinned host memory, ", Hex{address});
}

std::string MemoryMap::why_not_step(const Context& context, const Step& step, const Touch& touch, std::uint64_t address,
                                    bool is_kernel) const {
  if (step.pooled != nullptr) {
    const Touch rest{address, touch.address + touch.size - address, touch.is_write};
    return why_not_pooled(context, *step.pooled, rest, is_kernel);
  }
  if (step.mapping != nullptr) return why_not_mapped(context, step, address, touch.is_write);
  if (step.allocation != nullptr) return why_not_plain(context, *step.allocation, touch, address, is_kernel);
  return step.host != nullptr ? "" : why_not_unknown(touch, address, is_kernel);
}

std::string MemoryMap::why_not(const Context& context, const Touch& touch, bool is_kernel, Moment moment) const {
  const std::uint64_t end = touch.address + touch.size;
  if (end < touch.address) return text("the range at ", Hex{touch.address}, " wraps around");
  if (moment == Moment::work)
    if (const PoolAllocation* leaving = pools_.allocations().find_leaving(touch.address, touch.size))
      return why_not_pooled(context, *leaving, touch, is_kernel);
  const Chunk* before = nullptr;
  for (std::uint64_t at = touch.address; at < end;) {
    const Step step = look(at, moment);
    const Chunk* chunk = step.mapping == nullptr ? nullptr : &step.mapping->chunk();
    if (!is_kernel && before != nullptr && chunk != nullptr && !can_span(*before, *chunk))
      return text("the range from ", Hex{touch.address}, " to ", Hex{end},
                  " lies in memory of several places (another one begins at ", Hex{at},
                  "), and a device is configured without such copies (lacks=spanning_copies)");
    before = chunk;
    if (std::string refusal = why_not_step(context, step, touch, at, is_kernel); !refusal.empty()) return refusal;
    at = std::min(step.end, end);
  }
  return "";
}

std::string MemoryMap::why_not_copy(const Context& context, const Touch& touch, Moment moment) const {
  return why_not(context, touch, false, moment);
}

std::string MemoryMap::why_not_kernel(const Context& context, const Touch& touch) const {
  return why_not(context, touch, true, Moment::work);
}

bool MemoryMap::syncs_memops(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t end = address + size;
  for (std::uint64_t at = address; at < end;) {
    const Step step = look(at, Moment::call);
    if ((step.mapping != nullptr && step.mapping->syncs_memops) ||
        (step.pooled != nullptr && step.pooled->syncs_memops) ||
        (step.allocation != nullptr && step.allocation->syncs_memops) ||
        (step.host != nullptr && step.host->syncs_memops))
      return true;
    if (step.end <= at) break;
    at = step.end;
  }
  return false;
}

void MemoryMap::note_uses(const Work& work, const Order& order) const {
  for (const Touch& touch : work.touches) {
    const std::uint64_t end = touch.address + touch.size;
    for (std::uint64_t at = touch.address; at < end && arena_.contains(at);) {
      const Step step = look(at, Moment::call);
      if (step.mapping != nullptr) step.mapping->uses.note(work, order);
      if (step.pooled != nullptr) step.pooled->uses.note(work, order);
      if (step.allocation != nullptr) step.allocation->uses.note(work, order);
      if (step.end <= at) break;  // nothing is there: the work fails when its turn comes
      at = step.end;
    }
  }
}

std::uint64_t MemoryMap::bytes_at(const Step& step, std::uint64_t address) {
  if (step.mapping != nullptr) {
    const Chunk& chunk = step.mapping->chunk();
    if (!chunk.has_bytes()) return 0;
    if (chunk.device != nullptr) return address;
    return chunk.view.address() + step.mapping->offset + (address - step.mapping->address);
  }
  if (step.pooled != nullptr) return step.pooled->pool->has_bytes ? address : 0;
  return step.allocation == nullptr || step.allocation->device->is_host_backed() ? address : 0;
}

std::vector<Stretch> MemoryMap::stretches(std::uint64_t address, std::uint64_t size) const {
  std::vector<Stretch> found;
  const std::uint64_t end = address + size;
  if (const PoolAllocation* leaving = pools_.allocations().find_leaving(address, size))
    return {{address, size, leaving->pool->has_bytes ? address : 0}};
  for (std::uint64_t at = address; at < end;) {
    const Step step = look(at, Moment::work);
    const std::uint64_t next = std::min(step.end, end);
    const std::uint64_t bytes = bytes_at(step, at);
    const bool goes_on =
        !found.empty() && (bytes == 0 ? found.back().bytes == 0 : found.back().bytes + found.back().size == bytes);
    if (goes_on) {
      found.back().size += next - at;
    } else {
      found.push_back({at, next - at, bytes});
    }
    at = next;
  }
  return found;
}

bool MemoryMap::has_bytes(std::uint64_t address, std::uint64_t size) const {
  return std::ranges::any_of(stretches(address, size), [](const Stretch& stretch) { return stretch.bytes != 0; });
}

}  // namespace memlake::emulator
