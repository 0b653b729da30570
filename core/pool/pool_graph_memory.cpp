// The part of Pool that releases the memory of graph pools which no graph uses any more.

#include <utility>

#include "driver/relaxed_capture.hpp"
#include "pool/pool.hpp"

namespace memlake {

void Pool::release_graph_pool(GraphPoolId id, bool at_once) {
  if (!graphs_.give_up(id)) return;
  if (log_ != nullptr) log_->add(RowLog::Op::release_pool, 0, {at_once ? 1U : 0U}, 0, id);
  remove_ended_graphs();
}

bool Pool::release_ended_graphs(bool may_wait, std::optional<GraphPoolId> only) {
  if (!graphs_.has_any()) return false;
  const RelaxedCapture relaxed(events_.driver());
  const auto is_meant = [&](GraphPoolId id) { return only.value_or(id) == id; };
  std::vector<std::pair<std::shared_ptr<GraphPool>, std::uint64_t>> running;
  for (const auto& [id, graph_pool] : graphs_)
    if (is_meant(id) && graph_pool->uses == 0 && graph_pool->may_run)
      running.emplace_back(graph_pool, graph_pool->releases);
  if (may_wait && !running.empty()) {
    const auto end = [running] {
      // A graph may have used it again meanwhile.
      for (const auto& [graph_pool, releases] : running)
        if (graph_pool->uses == 0 && graph_pool->releases == releases) graph_pool->may_run = false;
    };
    static_cast<void>(events_.waits().wait_for_devices(end));
  }
  const Bytes before = spaces_.held().now;
  if (may_wait && only && pending_.count() > 0 && graphs_.has_pending(*only)) wait_for_events();
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
  return spaces_.held().now < before;
}

void Pool::remove_ended_graphs() {
  graphs_.remove_ended([this](const Space& space) {
    if (refusal_.space == &space) refusal_ = {};
  });
}

}  // namespace memlake
