// The functions of memlake.h for a program that watches a pool: statistics, blocks and events.

#include <string>

#include "abi/fill.hpp"
#include "abi/last_error.hpp"
#include "abi/pool_handle.hpp"
#include "driver/library.hpp"

namespace memlake::abi {

memlake_block_t to_c(const FoundBlock& block, int device) {
  memlake_block_t result{};
  result.address = block.range.begin.value;
  result.size = block.range.size.count;
  result.requested = block.requested.count;
  result.stream = block.stream;
  result.segment = block.segment.begin.value;
  result.segment_size = block.segment.size.count;
  result.device = device;
  result.state = block.state == BlockState::live      ? MEMLAKE_BLOCK_LIVE
                 : block.state == BlockState::pending ? MEMLAKE_BLOCK_PENDING
                                                      : MEMLAKE_BLOCK_FREE;
  result.is_small = block.is_small ? 1 : 0;
  result.segment_is_mapped = block.is_one_allocation ? 0 : 1;
  return result;
}

namespace {

void copy(memlake_count_t (&to)[3], const CountBySize& from) {
  for (std::size_t i = 0; i < from.of.size(); ++i)
    to[i] = {from.of[i].current, from.of[i].peak, from.of[i].allocated, from.of[i].freed};
}

memlake_pool_counts_t to_c(const LiveCounts& counts) {
  memlake_pool_counts_t result{};
  copy(result.allocations, counts.sizes.allocations);
  copy(result.segments, counts.sizes.segments);
  copy(result.active, counts.sizes.active);
  copy(result.inactive_splits, counts.sizes.inactive_splits);
  copy(result.allocated_bytes, counts.sizes.allocated_bytes);
  copy(result.held_bytes, counts.sizes.held_bytes);
  copy(result.active_bytes, counts.sizes.active_bytes);
  copy(result.inactive_split_bytes, counts.sizes.inactive_split_bytes);
  copy(result.requested_bytes, counts.sizes.requested_bytes);
  result.num_retries = counts.retries;
  result.num_ooms = counts.ooms;
  result.num_device_allocations = counts.device_allocations;
  result.num_device_frees = counts.device_frees;
  result.num_host_waits = counts.host_waits;
  result.largest_free = counts.largest_free.count;
  return result;
}

std::int32_t to_c(MemoryEvent::Kind kind) {
  switch (kind) {
    case MemoryEvent::Kind::allocated:
      return MEMLAKE_EVENT_SEGMENT_ALLOC;
    case MemoryEvent::Kind::released:
      return MEMLAKE_EVENT_SEGMENT_FREE;
    case MemoryEvent::Kind::mapped:
      return MEMLAKE_EVENT_SEGMENT_MAP;
    case MemoryEvent::Kind::unmapped:
      return MEMLAKE_EVENT_SEGMENT_UNMAP;
    case MemoryEvent::Kind::free_completed:
      return MEMLAKE_EVENT_FREE_COMPLETED;
  }
  return 0;
}

}  // namespace
}  // namespace memlake::abi

using namespace memlake;
using namespace memlake::abi;

extern "C" {

int memlake_pool_reset_peaks(memlake_pool* pool) {
  return code_from([&] { pool_of(pool).figures().reset_peaks(); });
}

int memlake_pool_reset_totals(memlake_pool* pool) {
  return code_from([&] { pool_of(pool).figures().reset_totals(); });
}

int memlake_pool_count_by_size(memlake_pool* pool) {
  return code_from([&] { pool_of(pool).figures().count_by_size(); });
}

int memlake_pool_counts(memlake_pool* pool, memlake_pool_counts_t* counts) {
  return code_from([&] { fill(counts, to_c(pool_of(pool).figures().counts()), "memlake_pool_counts_t"); });
}

int memlake_pool_count_outside(memlake_pool* pool, const memlake_pool_counts_t* outside) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (outside == nullptr || outside->struct_size < sizeof(memlake_pool_counts_t))
      throw Error(ErrorKind::invalid_argument, "set struct_size to sizeof(memlake_pool_counts_t) first");
    SizeLevels levels{};
    auto level = levels.begin();
    for (const auto* counts : {&outside->allocations, &outside->segments, &outside->active, &outside->inactive_splits,
                               &outside->allocated_bytes, &outside->held_bytes, &outside->active_bytes,
                               &outside->inactive_split_bytes, &outside->requested_bytes})
      for (const memlake_count_t& count : *counts) *level++ = count.current;
    live.figures().count_outside(levels);
  });
}

int memlake_pool_visit_blocks(memlake_pool* pool, int (*visit)(const memlake_block_t* block, void* user), void* user) {
  int answer = 0;
  const int code = code_from([&] {
    if (visit == nullptr) throw Error(ErrorKind::invalid_argument, "the function to call is NULL");
    for (const FoundBlock& found : pool_of(pool).figures().blocks()) {
      const memlake_block_t block = to_c(found, pool->device);
      answer = visit(&block, user);
      if (answer != 0) return;
    }
  });
  return code != MEMLAKE_OK ? code : answer;
}

int memlake_pool_observe(memlake_pool* pool, void (*observe)(const memlake_event_t* event, void* user), void* user) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (observe == nullptr) return live.figures().observe({});
    live.figures().observe([observe, user, device = pool->device](const LiveEvent& event) {
      const memlake_event_t told{to_c(event.kind),       device,       event.range.begin.value,
                                 event.range.size.count, event.stream, event.graph_pool.first,
                                 event.graph_pool.second};
      observe(&told, user);
    });
  });
}

int memlake_pool_enable_peer(memlake_pool* pool, int device) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    // A device of the same driver, and counted like the pool's own.
    Device& own = *live.devices().front();
    const int first = own.ordinal() - pool->device;
    if (device < 0 || device >= own.library().device_count() - first)
      throw Error(ErrorKind::invalid_argument, "there is no device " + std::to_string(device));
    live.settings().add_peer(own.library().device(first + device));
  });
}
}
