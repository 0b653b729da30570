#include "pool/pool_figures.hpp"

#include <algorithm>

namespace memlake {

PoolStats PoolFigures::stats() const {
  PoolStats stats = stats_;
  stats.held = spaces_.held();
  stats.held.now = stats.held.now + spaces_.budget()->unreleased;
  stats.held.peak = std::max(stats.held.peak, stats.held.now);
  stats.active.peak = std::max(stats.active.peak, active_peak_before_);
  stats.held_on_host = spaces_.spilled();
  stats.graph_held.now = graphs_.held();
  stats.graph_held.peak = std::max(stats.graph_held.peak, stats.graph_held.now);
  return stats;
}

void PoolFigures::reset_peaks() {
  for (Level* level : {&stats_.requested, &stats_.allocated, &stats_.graph_live}) level->peak = level->now;
  stats_.graph_held.peak = {0};
  reset_active_peak();
  reset_held_peak();
}

void PoolFigures::reset_active_peak() {
  for (const auto& space : spaces_)
    if (DriverCounts* counts = space->facets().driver_counts) counts->reset_used_peak();
  stats_.active.peak = stats_.active.now;
  active_peak_before_ = {0};
}

void PoolFigures::reset_held_peak() {
  spaces_.reset_held_peak();
  stats_.allocated_at_held_peak = stats_.allocated.now;
  held_peak_seen_ = spaces_.held().now;
}

Bytes PoolFigures::take_recent_peak() {
  const Bytes recent = stats_.active.peak;
  active_peak_before_ = std::max(active_peak_before_, recent);
  stats_.active.peak = stats_.active.now;
  return recent;
}

void PoolFigures::count_held_peak() {
  // At the first moment of a new peak, with the request counted that made it.
  if (const Bytes peak = spaces_.held().peak; peak > held_peak_seen_) {
    held_peak_seen_ = peak;
    stats_.allocated_at_held_peak = stats_.allocated.now;
  }
  if (graphs_.has_any()) [[unlikely]]
    stats_.graph_held.peak = std::max(stats_.graph_held.peak, graphs_.held());
}

void PoolFigures::count_graph(const Space& space, Bytes more, Bytes less) {
  GraphPool* graph_pool = space.graph_pool().get();
  if (graph_pool == nullptr) return;
  for (Level* live : {&graph_pool->live, &stats_.graph_live}) {
    live->add(more);
    live->subtract(less);
  }
}

}  // namespace memlake
