#include "pools/pool_allocations.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "basics/refusal.hpp"

namespace memlake::emulator {

void check_not_imported_elsewhere(const PoolAllocation& allocation) {
  const Pool& pool = *allocation.pool;
  if (!pool.is_exported || pool.memory == nullptr) return;
  if (is_used_elsewhere(pool.file->fd(), pool.memory->offset_in_file(allocation.address), allocation.size))
    violate("the memory at ", Hex{allocation.address}, " is still imported somewhere; the importer must free it first");
}

const PoolAllocation& PoolAllocations::add(PoolAllocation made) {
  made.id = next_id_++;
  const std::uint64_t address = made.address;
  return all_.emplace(address, std::move(made)).first->second;
}

PoolAllocation PoolAllocations::take(std::uint64_t address) { return std::move(all_.extract(address).mapped()); }

const PoolAllocation* PoolAllocations::find(std::uint64_t address) const {
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return nullptr;
  const PoolAllocation& candidate = std::prev(next)->second;
  return address - candidate.address < candidate.size ? &candidate : nullptr;
}

const PoolAllocation* PoolAllocations::find_start(std::uint64_t address) const {
  const auto found = all_.find(address);
  return found == all_.end() ? nullptr : &found->second;
}

PoolAllocation& PoolAllocations::begin_leaving(PoolAllocation freed) {
  const std::uint64_t id = freed.id;
  return leaving_.emplace(id, std::move(freed)).first->second;
}

const PoolAllocation* PoolAllocations::leaving(std::uint64_t id) const {
  const auto found = leaving_.find(id);
  return found == leaving_.end() ? nullptr : &found->second;
}

PoolAllocation PoolAllocations::end_leaving(std::uint64_t id) { return std::move(leaving_.extract(id).mapped()); }

const PoolAllocation* PoolAllocations::find_leaving(std::uint64_t address, std::uint64_t size) const {
  for (const auto& [id, allocation] : leaving_)
    if (allocation.contains(address, size)) return &allocation;
  return nullptr;
}

bool PoolAllocations::is_leaving(const Pool& pool) const {
  return std::ranges::any_of(leaving_, [&](const auto& entry) { return entry.second.pool == &pool; });
}

void PoolAllocations::check_made(const Clock& before, std::span<const Touch> touches) const {
  if (all_.empty()) return;
  for (const Touch& touch : touches) {
    const PoolAllocation* allocation = find(touch.address);
    if (allocation == nullptr || allocation->pool->relaxes(Switch::inflight_unmap)) continue;
    if (!order_.has_seen(allocation->stream, allocation->position) &&
        !before.covers(allocation->stream, allocation->position))
      violate("the memory at ", Hex{touch.address}, " is used in a stream that does not wait for the stream it was ",
              "allocated in, which may not have come to the allocation (call ", allocation->made_by.sequence,
              "); record an event there and wait for it here");
  }
}

void PoolAllocations::check_free(const PoolAllocation& allocation, const Clock& before) const {
  if (allocation.pool->relaxes(Switch::inflight_unmap)) return;
  const auto is_before = [&](std::uint64_t stream, std::uint64_t position) {
    return order_.has_seen(stream, position) || before.covers(stream, position);
  };
  if (!is_before(allocation.stream, allocation.position))
    violate("the memory at ", Hex{allocation.address}, " is freed in a stream that does not wait for the stream it ",
            "was allocated in; record an event there and wait for it here");
  if (const WorkLabel* user = allocation.uses.find_not(is_before))
    violate("the memory at ", Hex{allocation.address}, " is freed in a stream that does not wait for ",
            user->describe(), ", which uses it; record an event behind that work and wait for it here");
  check_not_imported_elsewhere(allocation);
}

std::vector<PoolAllocation> PoolAllocations::drop_device(const Device& device) {
  const auto is_its = [&](const auto& entry) { return entry.second.pool->device == &device; };
  std::erase_if(leaving_, is_its);
  std::vector<PoolAllocation> dropped;
  for (auto& entry : all_)
    if (is_its(entry)) dropped.push_back(std::move(entry.second));
  for (const PoolAllocation& gone : dropped) all_.erase(gone.address);
  return dropped;
}

}  // namespace memlake::emulator
