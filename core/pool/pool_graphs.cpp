#include "pool/pool_graphs.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace memlake {

const GraphPool* PoolGraphs::find(GraphPoolId id) const {
  const auto found = graph_pools_.find(id);
  return found == graph_pools_.end() ? nullptr : found->second.get();
}

std::size_t PoolGraphs::ended_that_may_run() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      graph_pools_, [](const auto& entry) { return entry.second->uses == 0 && entry.second->may_run; }));
}

Bytes PoolGraphs::held_by(const GraphPool& graph_pool) const {
  Bytes sum{0};
  for (const auto& space : spaces_)
    if (space->graph_pool().get() == &graph_pool) sum = sum + space->ledger().held();
  return sum;
}

Bytes PoolGraphs::held() const {
  Bytes sum{0};
  if (graph_pools_.empty()) return sum;
  for (const auto& space : spaces_)
    if (space->graph_pool() != nullptr) sum = sum + space->ledger().held();
  return sum;
}

Bytes PoolGraphs::kept(const Space* except) const {
  Bytes sum{0};
  if (graph_pools_.empty()) return sum;
  for (const auto& space : spaces_) {
    if (space.get() == except || space->graph_pool() == nullptr || !space->graph_pool()->keeps_memory()) continue;
    space->for_each([&](const Block& block) {
      if (block.state == BlockState::free) sum = sum + block.size;
    });
  }
  return sum;
}

bool PoolGraphs::has_pending(GraphPoolId id) const {
  const GraphPool* graph_pool = find(id);
  if (graph_pool == nullptr || graph_pool->uses > 0) return false;
  bool is_found = false;
  for (const auto& space : spaces_)
    if (space->graph_pool().get() == graph_pool)
      space->for_each([&](const Block& block) { is_found = is_found || block.state == BlockState::pending; });
  return is_found;
}

void PoolGraphs::use(GraphPoolId id) {
  if (id == GraphPoolId{}) throw Error(ErrorKind::invalid_argument, "(0, 0) names no graph pool; give another id");
  auto found = graph_pools_.find(id);
  if (found == graph_pools_.end())
    found = graph_pools_.emplace(id, std::make_shared<GraphPool>(GraphPool{.id = id})).first;
  GraphPool& graph_pool = *found->second;
  ++graph_pool.uses;
  graph_pool.kept = held_by(graph_pool);
}

bool PoolGraphs::give_up(GraphPoolId id) {
  const auto found = graph_pools_.find(id);
  if (found == graph_pools_.end() || found->second->uses == 0)
    throw Error(ErrorKind::invalid_free, "no graph uses the graph pool " + id.text() + "; it was released before");
  GraphPool& graph_pool = *found->second;
  if (--graph_pool.uses > 0) return false;
  ++graph_pool.releases;
  // A graph can be launched on any stream, also on one that the pool does not know.
  graph_pool.may_run = graph_pool.is_captured && held_by(graph_pool).count > 0;
  return true;
}

void PoolGraphs::set_captured(GraphPoolId id, bool is_captured) {
  GraphPool& graph_pool = *graph_pools_.at(id);
  graph_pool.is_captured = is_captured;
  graph_pool.kept = held_by(graph_pool);
}

Space& PoolGraphs::space(GraphPoolId id, std::size_t device_number, const SpaceMaker& make) {
  const std::shared_ptr<GraphPool>& graph_pool = graph_pools_.at(id);
  for (const auto& space : spaces_)
    if (space->graph_pool() == graph_pool && space->device_number() == device_number) return *space;
  return spaces_.add(make(graph_pool), false);
}

void PoolGraphs::remove_ended(const std::function<void(const Space&)>& before) {
  std::erase_if(graph_pools_,
                [this](const auto& entry) { return entry.second->uses == 0 && held_by(*entry.second).count == 0; });
  spaces_.remove_if([&](const Space& space) {
    if (space.graph_pool() == nullptr || find(space.graph_pool()->id) != nullptr) return false;
    before(space);
    return true;
  });
}

void PoolGraphs::check(InvariantReport& report) const {
  for (const auto& [id, graph_pool] : graph_pools_) {
    Bytes live{0};
    for (const auto& space : spaces_)
      if (space->graph_pool() == graph_pool)
        space->for_each([&](const Block& block) {
          if (block.state == BlockState::live) live = live + block.size;
        });
    if (live != graph_pool->live.now)
      report.add("I7: the graph pool ", id.text(), " has ", live.count, " live bytes, but counts ",
                 graph_pool->live.now.count);
    if (graph_pool->is_captured && graph_pool->keeps_memory() && held_by(*graph_pool) < graph_pool->kept)
      report.add("I4: the graph pool ", id.text(), " holds ", held_by(*graph_pool).count, " bytes, but graphs use ",
                 graph_pool->kept.count);
  }
}

}  // namespace memlake
