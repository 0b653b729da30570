// Allocations and frees of pools in stream order, and the release of memory when the host has waited.

#include <algorithm>
#include <vector>

#include "basics/rounding.hpp"
#include "pools/pools.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

/// On strict devices: what is promised is 256 bytes, so nothing more is given, for code that counts on 512 to show.
constexpr std::uint64_t kStrictOffset = 256;

/// A request of whole granules begins on a multiple of 512, so that it fits into as many granules.
std::uint64_t offset_in_block(const Pool& pool, std::uint64_t bytes) {
  return pool.is_strict && bytes % kPoolGranule != 0 ? kStrictOffset : 0;
}

}  // namespace

std::uint64_t Pools::allocate(Pool& pool, std::uint64_t bytes, Stream& stream, const Origin& origin) {
  if (pool.is_imported()) invalid("an imported pool cannot allocate; its memory comes by cuMemPoolImportPointer");
  if (bytes == 0) {
    // A pool of host memory belongs to no device; the stream's device says how doubtful calls are answered.
    const Device& judge = pool.device != nullptr ? *pool.device : *stream.device;
    if (pool.relaxes(Switch::alloc_async_zero) || judge.config.relaxes(Switch::alloc_async_zero)) return 0;
    invalid("0 bytes: some drivers allow this and others do not; do not ask for them");
  }
  const std::uint64_t total = pool.memory->supply().total();
  if (bytes > total) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there are ", total, " bytes in all, ", bytes, " were asked for");
  if (pool.device != nullptr) chunks_.check_usable(*pool.device);
  const std::uint64_t position = streams_.take_turn(stream, origin);
  const std::uint64_t offset = offset_in_block(pool, bytes);
  // Advice and location of managed memory belong to whole pages, so no two allocations share a page.
  const std::uint64_t size = round_up(bytes + offset, pool.is_managed() ? host_page() : kPoolUnit);
  PoolMemory::Taken taken = pool.memory->take(size, stream, stream.before, pool.switches, pool.has_bytes, [&] {
    if (pool.file == nullptr && pool.device == nullptr && pool.has_bytes) pool.file = std::make_shared<HeapFile>();
    if (pool.file != nullptr || !pool.has_bytes) return pool.file;
    return pool.device->heap_file();
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
                      .block = taken.block,
                      .block_size = taken.size,
                      .stream = stream.handle,
                      .position = position,
                      .context = stream.context,
                      .made = is_pending(stream.last) ? stream.last : nullptr,
                      .made_by = origin};
  ++pool.live;
  if (pool.is_managed())
    if (const PageHome home = home_of(pool.props.location); !home.is_none())
      pages_.set_preferred(made.block, made.block_size, home);
  return allocations_.add(std::move(made)).address;
}

void Pools::free(const PoolAllocation& allocation, Stream& stream, const Origin& origin) {
  Pool& pool = *allocation.pool;
  allocations_.check_free(allocation, streams_.before(stream));
  const std::uint64_t id = allocation.id;
  const std::uint64_t address = allocation.address;
  begin_leaving(allocation);
  CompletionRef completion;
  try {
    completion = streams_.when_reached(stream, origin, [this, id] { leave(id); });
  } catch (...) {
    allocations_.end_leaving(id);
    throw;
  }
  const PoolAllocation gone = allocations_.take(address);
  end(gone);
  if (pool.memory != nullptr)
    pool.memory->give_back(gone.block, PendingFree{stream.handle, stream.position, stream.context, completion});
  if (gone.range != nullptr)
    pool.graphs->give_back(*gone.range, PendingFree{stream.handle, stream.position, stream.context, completion});
  if (completion->is_done) leave(id);
}

/// The program has the memory no more.
void Pools::end(const PoolAllocation& gone) {
  if (gone.pool->is_managed()) pages_.forget(gone.block, gone.block_size);
  --gone.pool->live;
}

void Pools::begin_leaving(const PoolAllocation& allocation) {
  PoolAllocation& leaving = allocations_.begin_leaving(allocation);
  if (allocation.pool->relaxes(Switch::inflight_unmap))
    leaving.users = in_flight_.users_of(allocation.address, allocation.size);
}

/// The stream has come to the free.
void Pools::leave(std::uint64_t id) {
  const PoolAllocation* leaving = allocations_.leaving(id);
  if (leaving == nullptr) return;  // its device was closed meanwhile
  const auto& users = leaving->users;
  if (const auto user = std::ranges::find_if(users, is_pending); user != users.end()) {
    (*user)->then.push_back([this, id] { leave(id); });
    return;
  }
  finish_free(allocations_.end_leaving(id));
}

void Pools::free_now(const PoolAllocation& allocation) {
  Pool& pool = *allocation.pool;
  if (!pool.relaxes(Switch::inflight_unmap)) {
    if (const WorkLabel* user = allocation.uses.find_unseen(order_))
      violate("the memory at ", Hex{allocation.address}, " is freed, but the host has not waited for ",
              user->describe(),
              ", which uses it; cuMemFree does not wait where memory comes from a pool: ", "synchronise first");
    check_not_imported_elsewhere(allocation);
  }
  const PoolAllocation gone = allocations_.take(allocation.address);
  end(gone);
  // Its allocation may not have had its turn yet; the next user comes after that.
  std::optional<PendingFree> after;
  if (is_pending(gone.made)) after = PendingFree{gone.stream, gone.position, gone.context, gone.made};
  if (pool.memory != nullptr) pool.memory->give_back(gone.block, after);
  if (gone.range != nullptr) pool.graphs->give_back(*gone.range, after);
  begin_leaving(gone);
  leave(gone.id);
}

void Pools::finish_free(const PoolAllocation& gone) {
  Pool& pool = *gone.pool;
  if (pool.is_imported()) {
    pool.imported->leave(gone.file_offset, gone.size);
    pool.imported_bytes -= gone.block_size;
    if (pool.device != nullptr) pool.device->used -= gone.charged;
    if (pool.has_bytes) arena_.hide(gone.block, gone.block_size, 1);
    arena_.addresses().give_back(gone.block, gone.block_size);
  }
  end_if_unused(pool);
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
