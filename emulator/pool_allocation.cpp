// Allocations and frees of pools in stream order, and the release of memory when the host has waited.

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernel_limits.hpp"
#include "pool.hpp"

namespace memlake::emulator {

namespace {

/// On strict devices: what is promised is 256 bytes, so nothing more is given, for code that counts on 512 to show.
constexpr std::uint64_t kStrictOffset = 256;

/// A request of whole granules begins on a multiple of 512, so that it fits into as many granules.
std::uint64_t offset_in_block(const Pool& pool, std::uint64_t bytes) {
  return pool.is_strict() && bytes % kPoolGranule != 0 ? kStrictOffset : 0;
}

}  // namespace

std::uint64_t Pools::allocate(Pool& pool, std::uint64_t bytes, Stream& stream, const Origin& origin) {
  if (pool.is_imported()) invalid("an imported pool cannot allocate; its memory comes by cuMemPoolImportPointer");
  if (bytes == 0) {
    if (pool.relaxes(Switch::alloc_async_zero)) return 0;
    invalid("0 bytes: what a driver answers to that is not known; do not ask for them");
  }
  const std::uint64_t total = pool.device != nullptr ? pool.device->config.memory : HostMemory::total();
  if (bytes > total) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there are ", total, " bytes in all, ", bytes, " were asked for");
  if (pool.device != nullptr) chunks_.check_usable(*pool.device);
  const std::uint64_t position = streams_.take_turn(stream);
  const std::uint64_t offset = offset_in_block(pool, bytes);
  const std::uint64_t size = (bytes + offset + kPoolUnit - 1) / kPoolUnit * kPoolUnit;
  PoolMemory::Taken taken = pool.memory->take(size, stream, stream.before, pool.switches, [&] {
    if (pool.file == nullptr && pool.device == nullptr) pool.file = std::make_shared<HeapFile>();
    if (pool.file != nullptr) return pool.file;
    return pool.has_bytes() ? pool.device->heap_file() : nullptr;
  });
  if (!taken.waits.empty()) {
    try {
      streams_.enqueue(stream, Work{.name = text(origin.call, " (it waits for the free of another stream)"),
                                    .origin = origin,
                                    .waits = taken.waits});
    } catch (...) {
      pool.memory->put_back(std::move(taken));
      throw;
    }
  }
  PoolAllocation made{.address = taken.block + offset,
                      .size = bytes,
                      .pool = &pool,
                      .id = next_id_++,
                      .block = taken.block,
                      .block_size = taken.size,
                      .stream = stream.handle,
                      .position = position,
                      .context = stream.context,
                      .made = is_pending(stream.last) ? stream.last : nullptr,
                      .made_by = origin};
  ++pool.live;
  return allocations_.emplace(made.address, std::move(made)).first->first;
}

void Pools::check_not_imported_elsewhere(const PoolAllocation& allocation) const {
  const Pool& pool = *allocation.pool;
  if (!pool.is_exported || pool.memory == nullptr) return;
  if (is_used_elsewhere(pool.file->fd(), pool.memory->offset_in_file(allocation.address), allocation.size))
    violate("the memory at ", Hex{allocation.address}, " is still imported somewhere; the importer must free it first");
}

void Pools::free(const PoolAllocation& allocation, Stream& stream, const Origin& origin) {
  Pool& pool = *allocation.pool;
  const Clock& before = streams_.before(stream);
  if (!pool.relaxes(Switch::inflight_unmap)) {
    if (is_pending(allocation.made) && !before.covers(allocation.stream, allocation.position))
      violate("the memory at ", Hex{allocation.address}, " is freed in a stream that does not wait for the stream it ",
              "was allocated in; record an event there and wait for it here");
    if (const Work* user = in_flight_.user_not_before(before, allocation.address, allocation.size))
      violate("the memory at ", Hex{allocation.address}, " is freed in a stream that does not wait for ",
              user->describe(), ", which uses it; record an event behind that work and wait for it here");
    check_not_imported_elsewhere(allocation);
  }
  const std::uint64_t id = allocation.id;
  const std::uint64_t address = allocation.address;
  leaving_.emplace(id, allocation);
  CompletionRef completion;
  try {
    completion = streams_.when_reached(stream, origin, [this, id] { leave(id); });
  } catch (...) {
    leaving_.erase(id);
    throw;
  }
  const PoolAllocation gone = std::move(allocations_.at(address));
  allocations_.erase(address);
  --pool.live;
  if (pool.memory != nullptr)
    pool.memory->give_back(gone.block, PendingFree{stream.handle, stream.position, stream.context, completion});
  if (completion->is_done) leave(id);
}

/// The stream has come to the free.
void Pools::leave(std::uint64_t id) {
  const auto found = leaving_.find(id);
  if (found == leaving_.end()) return;  // its device was closed meanwhile
  const PoolAllocation gone = std::move(found->second);
  leaving_.erase(found);
  finish_free(gone);
}

void Pools::free_now(const PoolAllocation& allocation) {
  Pool& pool = *allocation.pool;
  if (!pool.relaxes(Switch::inflight_unmap)) {
    if (const Work* user = in_flight_.user_of(allocation.address, allocation.size))
      violate("the memory at ", Hex{allocation.address}, " is freed while ", user->describe(),
              " uses it; cuMemFree does not wait where memory comes from a pool: synchronise first");
    check_not_imported_elsewhere(allocation);
  }
  const PoolAllocation gone = allocation;
  allocations_.erase(gone.address);
  --pool.live;
  if (pool.memory != nullptr) {
    // Its allocation may not have had its turn yet; the next user comes after that.
    std::optional<PendingFree> after;
    if (is_pending(gone.made)) after = PendingFree{gone.stream, gone.position, gone.context, gone.made};
    pool.memory->give_back(gone.block, after);
  }
  finish_free(gone);
}

void Pools::finish_free(const PoolAllocation& gone) {
  Pool& pool = *gone.pool;
  if (pool.is_imported()) {
    pool.imported->leave(gone.file_offset, gone.size);
    pool.imported_bytes -= gone.block_size;
    if (pool.device != nullptr) pool.device->used -= gone.charged;
    // The addresses stay taken while work runs there that has no right to; there is no more use for them.
    if (in_flight_.user_of(gone.block, gone.block_size, true) == nullptr) {
      if (pool.has_bytes()) arena_.hide(gone.block, gone.block_size, 1);
      arena_.addresses().give_back(gone.block, gone.block_size);
    }
  }
  end_if_unused(pool);
}

const PoolAllocation* Pools::find_allocation(std::uint64_t address) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const PoolAllocation& candidate = std::prev(next)->second;
  return address - candidate.address < candidate.size ? &candidate : nullptr;
}

const PoolAllocation* Pools::find_leaving(std::uint64_t address, std::uint64_t size) const {
  for (const auto& [id, allocation] : leaving_)
    if (allocation.contains(address, size)) return &allocation;
  return nullptr;
}

void Pools::check_made(Stream& stream, std::span<const Touch> touches) {
  if (allocations_.empty()) return;
  for (const Touch& touch : touches) {
    const PoolAllocation* allocation = find_allocation(touch.address);
    if (allocation == nullptr || !is_pending(allocation->made) || allocation->pool->relaxes(Switch::inflight_unmap))
      continue;
    if (!streams_.before(stream).covers(allocation->stream, allocation->position))
      violate("the memory at ", Hex{touch.address}, " is used in a stream that does not wait for the stream it was ",
              "allocated in, which has not come to the allocation (call ", allocation->made_by.sequence,
              "); record an event there and wait for it here");
  }
}

void Pools::release_by_thresholds() {
  for (const auto& [handle, pool] : pools_)
    if (pool->memory != nullptr && !pool->is_exported) pool->memory->release_above(pool->release_threshold);
}

void Pools::synchronized(const Clock& point) {
  for (const auto& [handle, pool] : pools_)
    if (pool->memory != nullptr)
      pool->memory->observe([&](const PendingFree& free) { return point.covers(free.stream, free.position); });
  release_by_thresholds();
}

void Pools::synchronized(const Clock& point, const Context& context) {
  for (const auto& [handle, pool] : pools_)
    if (pool->memory != nullptr)
      pool->memory->observe([&](const PendingFree& free) {
        // Streams that are gone have no place in the clock any more, but their work is done.
        return point.covers(free.stream, free.position) ||
               (free.context == context.handle && free.completion->is_done && !streams_.all().contains(free.stream));
      });
  release_by_thresholds();
}

}  // namespace memlake::emulator
