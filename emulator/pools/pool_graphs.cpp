// The memory of graphs, seen as a pool of each device: allocations are found, checked and freed like those of pools.

#include <utility>

#include "pools/pools.hpp"

namespace memlake::emulator {

Pool& Pools::graph_pool(Device& device) {
  if (const auto found = graph_pools_.find(device.ordinal); found != graph_pools_.end()) return *found->second;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal};
  Pool& made = add(props, &device, Origin{.call = "the driver"});
  made.graphs = std::make_shared<GraphMemory>(arena_, in_flight_, device);
  graph_pools_.emplace(device.ordinal, &made);
  return made;
}

const Pool* Pools::find_graph_pool(const Device& device) const {
  const auto found = graph_pools_.find(device.ordinal);
  return found == graph_pools_.end() ? nullptr : found->second;
}

GraphRangeRef Pools::reserve_for_graph(Device& device, std::uint64_t bytes) {
  chunks_.check_usable(device);
  return graph_pool(device).graphs->reserve(bytes);
}

void Pools::begin_graph_allocation(const GraphRangeRef& range, const Stream& stream, const CompletionRef& made,
                                   const Origin& origin) {
  Pool& pool = graph_pool(range->memory().device());
  PoolAllocation allocation{.address = range->address(),
                            .size = range->size(),
                            .pool = &pool,
                            .block = range->address(),
                            .block_size = range->extent(),
                            .stream = stream.handle,
                            .position = stream.position,
                            .context = stream.context,
                            .made = made,
                            .made_by = origin,
                            .range = range};
  ++pool.live;
  allocations_.add(std::move(allocation));
}

std::function<void()> Pools::begin_graph_free(const PoolAllocation& allocation) {
  const std::uint64_t id = allocation.id;
  --allocation.pool->live;
  allocations_.begin_leaving(allocations_.take(allocation.address));
  return [this, id] { leave(id); };
}

}  // namespace memlake::emulator
