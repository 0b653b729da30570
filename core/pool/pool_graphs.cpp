// The part of Pool for graph pools: who uses them, their spaces, and how their memory comes back.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "driver/relaxed_capture.hpp"
#include "pool/pool.hpp"

namespace memlake {

const GraphPool* Pool::find_graph_pool(GraphPoolId id) const {
  const auto found = graph_pools_.find(id);
  return found == graph_pools_.end() ? nullptr : found->second.get();
}

std::size_t Pool::ended_graphs_that_may_run() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      graph_pools_, [](const auto& entry) { return entry.second->uses == 0 && entry.second->may_run; }));
}

Bytes Pool::held_by(const GraphPool& graph_pool) const {
  Bytes sum{0};
  for (const auto& space : spaces_)
    if (space->graph_pool().get() == &graph_pool) sum = sum + space->ledger().held();
  return sum;
}

Bytes Pool::held_by_graphs() const {
  Bytes sum{0};
  if (graph_pools_.empty()) return sum;
  for (const auto& space : spaces_)
    if (space->graph_pool() != nullptr) sum = sum + space->ledger().held();
  return sum;
}

Bytes Pool::kept_for_graphs(const Space* except) const {
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

void Pool::use_graph_pool(GraphPoolId id) {
  if (id == GraphPoolId{}) throw Error(ErrorKind::invalid_argument, "(0, 0) names no graph pool; give another id");
  auto found = graph_pools_.find(id);
  if (found == graph_pools_.end())
    found = graph_pools_.emplace(id, std::make_shared<GraphPool>(GraphPool{.id = id})).first;
  GraphPool& graph_pool = *found->second;
  ++graph_pool.uses;
  graph_pool.kept = held_by(graph_pool);
}

void Pool::release_graph_pool(GraphPoolId id, bool at_once) {
  const auto found = graph_pools_.find(id);
  if (found == graph_pools_.end() || found->second->uses == 0)
    throw Error(ErrorKind::invalid_free, "no graph uses the graph pool " + id.text() + "; it was released before");
  GraphPool& graph_pool = *found->second;
  if (--graph_pool.uses > 0) return;
  ++graph_pool.releases;
  // A graph can be launched on any stream, also on one that the pool does not know.
  graph_pool.may_run = graph_pool.is_captured && held_by(graph_pool).count > 0;
  if (log_ != nullptr) log_->add(RowLog::Op::release_pool, 0, {at_once ? 1U : 0U}, 0, id);
  remove_ended_graphs();
}

void Pool::set_captured(GraphPoolId id, bool is_captured) {
  GraphPool& graph_pool = *graph_pools_.at(id);
  graph_pool.is_captured = is_captured;
  graph_pool.kept = held_by(graph_pool);
}

Space& Pool::graph_space(GraphPoolId id, std::size_t device_number, const GraphSpaceMaker& make) {
  const std::shared_ptr<GraphPool>& graph_pool = graph_pools_.at(id);
  for (const auto& space : spaces_)
    if (space->graph_pool() == graph_pool && space->device_number() == device_number) return *space;
  return add_space(make(graph_pool), false);
}

bool Pool::is_awaited(GraphPoolId id) const {
  const GraphPool* graph_pool = find_graph_pool(id);
  if (awaited_count_ == 0 || graph_pool == nullptr || graph_pool->uses > 0) return false;
  bool is_found = false;
  for (const auto& space : spaces_)
    if (space->graph_pool().get() == graph_pool)
      space->for_each([&](const Block& block) { is_found = is_found || block.state == BlockState::pending; });
  return is_found;
}

bool Pool::release_ended_graphs(bool may_wait, std::optional<GraphPoolId> only) {
  if (graph_pools_.empty()) return false;
  const RelaxedCapture relaxed(events_.driver());
  const auto is_meant = [&](GraphPoolId id) { return only.value_or(id) == id; };
  std::vector<std::pair<std::shared_ptr<GraphPool>, std::uint64_t>> running;
  for (const auto& [id, graph_pool] : graph_pools_)
    if (is_meant(id) && graph_pool->uses == 0 && graph_pool->may_run)
      running.emplace_back(graph_pool, graph_pool->releases);
  if (may_wait && !running.empty()) {
    const auto end = [running] {
      // A graph may have used it again meanwhile.
      for (const auto& [graph_pool, releases] : running)
        if (graph_pool->uses == 0 && graph_pool->releases == releases) graph_pool->may_run = false;
    };
    static_cast<void>(events_.wait_for_devices(end));
  }
  const Bytes before = held().now;
  if (may_wait && only && is_awaited(*only)) wait_for_events();
  for (const auto& space : spaces_) {
    const GraphPool* graph_pool = space->graph_pool().get();
    if (graph_pool == nullptr || graph_pool->keeps_memory() || !is_meant(graph_pool->id)) continue;
    if (may_wait) {
      space->release_everything();
    } else {
      space->trim({0});
    }
  }
  remove_ended_graphs();
  return held().now < before;
}

void Pool::remove_ended_graphs() {
  std::erase_if(graph_pools_,
                [this](const auto& entry) { return entry.second->uses == 0 && held_by(*entry.second).count == 0; });
  std::erase_if(spaces_, [this](const std::unique_ptr<Space>& space) {
    if (space->graph_pool() == nullptr || find_graph_pool(space->graph_pool()->id) != nullptr) return false;
    by_number_[space->number()] = nullptr;
    if (refusal_.space == space.get()) refusal_ = {};
    return true;
  });
}

void Pool::count_graph(const Space& space, Bytes more, Bytes less) {
  GraphPool* graph_pool = space.graph_pool().get();
  if (graph_pool == nullptr) return;
  for (Level* live : {&graph_pool->live, &stats_.graph_live}) {
    live->add(more);
    live->subtract(less);
  }
}

void Pool::check_graphs(InvariantReport& report) const {
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
