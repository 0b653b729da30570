#include "runtime/live_graphs.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "policies/torch/graph_rules.hpp"
#include "runtime/waiting.hpp"

namespace memlake {

GraphPoolId LiveGraphs::make_id() {
  const auto lock = locked_.open_lock();
  // One number of PyTorch's ids is always 0, so they differ from these. A C program may have chosen one of these.
  GraphPoolId id;
  do {
    ++ids_made_;
    id = {ids_made_, ids_made_};
  } while (locked_.pool().graphs().find(id) != nullptr);
  return id;
}

// A graph pool that ended keeps its memory and a range of addresses as large as the device until the host has waited.
// During a capture it cannot wait, so what has ended is given back before many have come together. 47 bits of addresses
// are enough for some hundred ranges of the largest devices.
constexpr std::size_t kMostEnded = 64;

void LiveGraphs::release_many_ended(std::unique_lock<Lock>& lock) {
  if (locked_.pool().graphs().ended_that_may_run() < kMostEnded) return;
  locked_.waiting(lock, [&] { return locked_.pool().release_ended_graphs(true); });
}

void LiveGraphs::use(GraphPoolId id) {
  auto lock = locked_.open_lock();
  release_many_ended(lock);
  locked_.pool().graphs().use(id);
}

std::uint64_t LiveGraphs::begin_requests(GraphPoolId id, RequestFilter takes) {
  auto lock = locked_.open_lock();
  if (locked_.pool().spaces().policy().devices().location() != Location::device)
    throw Error(ErrorKind::config,
                "the memory of this pool lies on the host, and graph pools have memory of a device; use a pool with "
                "location=\"device\"");
  release_many_ended(lock);
  routes_.reserve(routes_.size() + 1);
  locked_.pool().graphs().use(id);
  routes_.push_back({++routes_made_, id, std::move(takes)});
  locked_.streams().waits.expect_captures(true);
  return routes_made_;
}

void LiveGraphs::end_requests(std::uint64_t number) {
  locked_.with_lock([&] {
    std::erase_if(routes_, [&](const Route& route) { return route.number == number; });
    locked_.streams().waits.expect_captures(!routes_.empty());
  });
}

void LiveGraphs::end_requests(GraphPoolId id) {
  const auto lock = locked_.open_lock();
  const auto latest =
      std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& route) { return route.id == id; });
  if (latest == routes_.rend())
    throw Error(ErrorKind::invalid_argument, "no requests go to the graph pool " + id.text() + "; that ended before");
  routes_.erase(std::next(latest).base());
  locked_.streams().waits.expect_captures(!routes_.empty());
}

void LiveGraphs::release(GraphPoolId id, bool may_wait) {
  auto lock = locked_.open_lock();
  const GraphPool* graph_pool = locked_.pool().graphs().find(id);
  const bool is_last = graph_pool != nullptr && graph_pool->uses == 1;
  if (is_last && std::ranges::any_of(routes_, [&](const Route& route) { return route.id == id; }))
    throw Error(ErrorKind::invalid_argument,
                "requests still go to the graph pool " + id.text() + ", so it cannot be released; end that first");
  locked_.pool().release_graph_pool(id, may_wait);
  if (!is_last || !may_wait) return;
  locked_.waiting(lock, [&] { return locked_.pool().release_ended_graphs(true); });
}

void LiveGraphs::empty(GraphPoolId id) {
  auto lock = locked_.open_lock();
  locked_.waiting(lock, [&] { return locked_.pool().release_ended_graphs(true, id); });
}

void LiveGraphs::require_used(GraphPoolId id) const {
  const GraphPool* graph_pool = locked_.pool().graphs().find(id);
  if (graph_pool == nullptr || graph_pool->uses == 0)
    throw Error(ErrorKind::invalid_argument, "no graph uses the graph pool " + id.text() + "; begin or use it first");
}

GraphPoolStats LiveGraphs::stats(GraphPoolId id) const {
  const auto lock = locked_.open_lock();
  const GraphPool* graph_pool = locked_.pool().graphs().find(id);
  if (graph_pool == nullptr) return {};
  const auto begun = std::ranges::count(routes_, id, &Route::id);
  return {graph_pool->uses, static_cast<std::uint64_t>(begun), locked_.pool().graphs().held_by(*graph_pool),
          graph_pool->live};
}

std::optional<GraphPoolId> LiveGraphs::route_of(CUstream stream) const {
  for (const Route& route : routes_)
    if (route.takes(stream)) return route.id;
  return std::nullopt;
}

void LiveGraphs::require_no_requests() const {
  if (routes_.empty()) return;
  throw Error(ErrorKind::invalid_free, "requests still go to the graph pool " + routes_.front().id.text() +
                                           " of the pool; leave its block first");
}

void LiveGraphs::set_captured(GraphPoolId id, bool is_captured) {
  const auto lock = locked_.open_lock();
  require_used(id);
  locked_.pool().graphs().set_captured(id, is_captured);
}

Space& LiveGraphs::space_for(GraphPoolId id, StreamId stream) {
  const std::size_t device = locked_.streams().table.device_of(stream);
  if (!locked_.pool().graphs().find(id)->is_captured && stream != 0 &&
      locked_.streams().events.progress().is_capturing(stream))
    locked_.pool().graphs().set_captured(id, true);
  return locked_.pool().graphs().space(id, device, [&](std::shared_ptr<GraphPool> graph_pool) {
    return make_graph_space(locked_.pool().spaces().policy(), locked_.devices(), device, locked_.streams().events,
                            std::move(graph_pool));
  });
}

}  // namespace memlake
