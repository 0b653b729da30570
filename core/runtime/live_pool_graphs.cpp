// The part of LivePool for graph pools: which requests go there, and who uses them.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "runtime/live_pool_waiting.hpp"

namespace memlake {

GraphPoolId LivePool::make_graph_pool_id() {
  const auto lock = open_lock();
  // One number of PyTorch's ids is always 0, so they differ from these. A C program may have chosen one of these.
  GraphPoolId id;
  do {
    ++graph_pools_made_;
    id = {graph_pools_made_, graph_pools_made_};
  } while (pool_->find_graph_pool(id) != nullptr);
  return id;
}

// A graph pool that ended keeps its memory and a range of addresses as large as the device until the host has waited.
// During a capture it cannot wait, so what has ended is given back before many have come together. 47 bits of addresses
// are enough for some hundred ranges of the largest devices.
constexpr std::size_t kMostEnded = 64;

void LivePool::release_many_ended(std::unique_lock<Lock>& lock) {
  if (pool_->ended_graphs_that_may_run() < kMostEnded) return;
  waiting(lock, [&] { return pool_->release_ended_graphs(true); });
}

void LivePool::use_graph_pool(GraphPoolId id) {
  auto lock = open_lock();
  release_many_ended(lock);
  pool_->use_graph_pool(id);
}

std::uint64_t LivePool::begin_graph_requests(GraphPoolId id, RequestFilter takes) {
  auto lock = open_lock();
  if (pool_->policy_space().location() != Location::device)
    throw Error(ErrorKind::config,
                "the memory of this pool lies on the host, and graph pools have memory of a device; use a pool with "
                "location=\"device\"");
  release_many_ended(lock);
  routes_.reserve(routes_.size() + 1);
  pool_->use_graph_pool(id);
  routes_.push_back({++routes_made_, id, std::move(takes)});
  events_.expect_captures(true);
  return routes_made_;
}

void LivePool::end_graph_requests(std::uint64_t number) {
  with_lock([&] {
    std::erase_if(routes_, [&](const Route& route) { return route.number == number; });
    events_.expect_captures(!routes_.empty());
  });
}

void LivePool::end_graph_requests(GraphPoolId id) {
  const auto lock = open_lock();
  const auto latest =
      std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& route) { return route.id == id; });
  if (latest == routes_.rend())
    throw Error(ErrorKind::invalid_argument, "no requests go to the graph pool " + id.text() + "; that ended before");
  routes_.erase(std::next(latest).base());
  events_.expect_captures(!routes_.empty());
}

void LivePool::release_graph_pool(GraphPoolId id, bool may_wait) {
  auto lock = open_lock();
  const GraphPool* graph_pool = pool_->find_graph_pool(id);
  const bool is_last = graph_pool != nullptr && graph_pool->uses == 1;
  if (is_last && std::ranges::any_of(routes_, [&](const Route& route) { return route.id == id; }))
    throw Error(ErrorKind::invalid_argument,
                "requests still go to the graph pool " + id.text() + ", so it cannot be released; end that first");
  pool_->release_graph_pool(id, may_wait);
  if (!is_last || !may_wait) return;
  waiting(lock, [&] { return pool_->release_ended_graphs(true); });
}

void LivePool::empty_graph_pool(GraphPoolId id) {
  auto lock = open_lock();
  waiting(lock, [&] { return pool_->release_ended_graphs(true, id); });
}

void LivePool::require_graph_pool(GraphPoolId id) const {
  const GraphPool* graph_pool = pool_->find_graph_pool(id);
  if (graph_pool == nullptr || graph_pool->uses == 0)
    throw Error(ErrorKind::invalid_argument, "no graph uses the graph pool " + id.text() + "; begin or use it first");
}

GraphPoolStats LivePool::graph_pool_stats(GraphPoolId id) const {
  const auto lock = open_lock();
  const GraphPool* graph_pool = pool_->find_graph_pool(id);
  if (graph_pool == nullptr) return {};
  const auto begun = std::ranges::count(routes_, id, &Route::id);
  return {graph_pool->uses, static_cast<std::uint64_t>(begun), pool_->held_by(*graph_pool), graph_pool->live};
}

std::optional<GraphPoolId> LivePool::route_of(CUstream stream) const {
  for (const Route& route : routes_)
    if (route.takes(stream)) return route.id;
  return std::nullopt;
}

void LivePool::set_graph_pool_captured(GraphPoolId id, bool is_captured) {
  const auto lock = open_lock();
  require_graph_pool(id);
  pool_->set_captured(id, is_captured);
}

void LivePool::restore_graph_pool(GraphPoolId id, std::span<const EarlierAllocation> earlier,
                                  const std::function<void(const FoundBlock&)>& before_free) {
  const auto lock = open_lock();
  require_graph_pool(id);
  std::vector<EarlierBlock> blocks;
  blocks.reserve(earlier.size());
  for (const EarlierAllocation& allocation : earlier)
    blocks.push_back({allocation.range, allocation.requested, number_of(allocation.stream, false)});
  std::vector<Block*> live;
  std::vector<Address> freed;
  for (const auto& space : pool_->spaces()) {
    if (space->graph_pool() == nullptr || space->graph_pool()->id != id) continue;
    space->for_each([&](const Block& block) {
      if (block.state != BlockState::live) return;
      live.push_back(by_address_.find(block.address).block);
      freed.push_back(block.address);
      if (live.back() == nullptr)
        throw Error(ErrorKind::invalid_argument, "a buffer object has memory of the graph pool " + id.text() +
                                                     ", which only its close() may free; close it first");
    });
  }
  const auto decided = [&] {
    by_address_.make_room(blocks.size());
    for (const Block* block : live) before_free(found(pool_->space_of(*block), *block));
    for (const Address address : freed) by_address_.remove(by_address_.find(address));
  };
  for (Block* block : pool_->restore(id, live, blocks, decided)) by_address_.insert(block->address, block);
}

Space& LivePool::graph_space(GraphPoolId id, StreamId stream) {
  const std::size_t device = streams_.device_of(stream);
  if (!pool_->find_graph_pool(id)->is_captured && stream != 0 && events_.is_capturing(stream))
    pool_->set_captured(id, true);
  return pool_->graph_space(id, device, [&](std::shared_ptr<GraphPool> graph_pool) {
    return make_graph_space(pool_->policy_space(), devices_, device, events_, std::move(graph_pool));
  });
}

}  // namespace memlake
