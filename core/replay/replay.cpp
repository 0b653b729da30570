#include "replay/replay.hpp"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "policies/torch/graph_rules.hpp"

namespace memlake {

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The rows of one trace and what is live of them.
class Player {
 public:
  Player(const TraceColumns& trace, Pool& pool, TraceEvents& events, const ReplayOptions& options)
      : trace_(trace),
        pool_(pool),
        events_(events),
        device_(trace.pool.empty() ? nullptr : options.device),
        takes_in_advance_(options.takes_in_advance) {}

  /// False if a request found no memory.
  bool play(std::size_t row) {
    const std::uint32_t id = trace_.id[row];
    events_.set_row(row);
    switch (trace_.op[row]) {
      case TraceColumns::allocate:
        if (live_.size() <= id) live_.resize(std::size_t{id} + 1);
        if (trace_.bytes[row] == 0) return true;
        live_[id] = pool_.allocate(space_for(row), {trace_.bytes[row]}, trace_.stream[row]);
        return live_[id] != nullptr;
      case TraceColumns::free:
        if (Block* block = forget(id)) pool_.free(block);
        return true;
      case TraceColumns::free_on:
        if (Block* block = forget(id)) pool_.free(block, trace_.stream[row]);
        return true;
      case TraceColumns::record_stream:
        if (Block* block = live_block(id)) pool_.record_use(block, trace_.stream[row]);
        return true;
      case TraceColumns::event_done:
        events_.done(id);
        return true;
      case TraceColumns::synchronise:
        events_.all_done();
        return true;
      case TraceColumns::empty_cache:
        pool_.release_cached();
        return true;
      case TraceColumns::trim:
        pool_.trim({trace_.bytes[row]});
        return true;
      case TraceColumns::preallocate:
        // Nobody waits for this memory; that it is not there shows when it is asked for.
        if (takes_in_advance_) static_cast<void>(pool_.preallocate({trace_.bytes[row]}, trace_.stream[row]));
        return true;
      case TraceColumns::release_pool:
        release_pool(row);
        return true;
      default:
        return true;
    }
  }

 private:
  [[nodiscard]] GraphPoolId graph_pool_of(std::size_t row) const {
    return device_ == nullptr ? GraphPoolId{} : GraphPoolId{trace_.pool[row], 0};
  }

  Space& space_for(std::size_t row) {
    const GraphPoolId id = graph_pool_of(row);
    if (id == GraphPoolId{}) [[likely]]
      return pool_.spaces().by_default();
    if (const GraphPool* known = pool_.graphs().find(id); known == nullptr || known->uses == 0) pool_.graphs().use(id);
    return pool_.graphs().space(id, 0, [this](std::shared_ptr<GraphPool> graph_pool) {
      return make_graph_space(pool_.spaces().policy(), {device_}, 0, events_, std::move(graph_pool));
    });
  }

  void release_pool(std::size_t row) {
    const GraphPoolId id = graph_pool_of(row);
    const GraphPool* known = pool_.graphs().find(id);
    if (known == nullptr || known->uses == 0) return;
    const bool at_once = trace_.bytes[row] != 0;
    pool_.release_graph_pool(id, at_once);
    if (at_once) pool_.release_ended_graphs(true);
  }

  /// The live block of an allocation that is about to be freed; null if there is none.
  Block* forget(std::uint32_t id) {
    Block* block = live_block(id);
    if (block == nullptr) return nullptr;
    events_.freeing(id);
    live_[id] = nullptr;
    return block;
  }

  [[nodiscard]] Block* live_block(std::uint32_t id) const { return id < live_.size() ? live_[id] : nullptr; }

  const TraceColumns& trace_;
  Pool& pool_;
  TraceEvents& events_;
  std::shared_ptr<Device> device_;  // null: graph pools are not played
  bool takes_in_advance_;
  std::vector<Block*> live_;  // by id; null where nothing is live
};

/// Adds samples of a pool to a timeline. Each sample has the maxima of its rows, so no peak falls between two samples.
class Sampler {
 public:
  Sampler(const Pool& pool, std::vector<Sample>& timeline) : pool_(pool), timeline_(timeline) {}

  /// Begins a sample with the state before `row`.
  void begin(std::uint64_t row, double driver_us) {
    const PoolStats stats = pool_.figures().stats();
    timeline_.push_back({row, stats.allocated.now, stats.held.now, driver_us});
  }

  /// Adds the state after a row to the last sample. A peak that was reached and left within the row counts, too.
  void look() {
    const PoolStats stats = pool_.figures().stats();
    if (!timeline_.empty()) {
      Sample& sample = timeline_.back();
      sample.allocated = std::max(sample.allocated, seen(stats.allocated, allocated_peak_));
      sample.held = std::max(sample.held, seen(stats.held, held_peak_));
    }
    allocated_peak_ = stats.allocated.peak;
    held_peak_ = stats.held.peak;
  }

 private:
  /// The largest value of a level during the last row, as far as its peak tells.
  static Bytes seen(const Level& level, Bytes peak_before) { return peak_before < level.peak ? level.peak : level.now; }

  const Pool& pool_;
  std::vector<Sample>& timeline_;
  Bytes allocated_peak_;
  Bytes held_peak_;
};

}  // namespace

ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, const ReplayOptions& options) {
  ReplayOutcome outcome;
  Player player(trace, pool, events, options);
  const std::uint64_t every = options.rows_per_sample;
  Sampler sampler(pool, outcome.timeline);
  std::uint64_t next_sample = every == 0 ? UINT64_MAX : options.first_sample;
  const auto modelled_us = [&] { return options.calls == nullptr ? 0.0 : options.calls->modelled_us(); };
  double before = modelled_us();
  auto next_moment = options.moments.begin();
  const double start = thread_seconds();
  for (std::size_t row = 0; row < trace.op.size(); ++row) {
    if (row == next_sample) [[unlikely]] {
      sampler.begin(row, modelled_us());
      next_sample += every;
    }
    const bool found_memory = player.play(row);
    if (every != 0) [[unlikely]]
      sampler.look();
    if (next_moment != options.moments.end() && *next_moment <= row) [[unlikely]] {
      outcome.moments.add(row, pool);
      while (next_moment != options.moments.end() && *next_moment <= row) ++next_moment;
    }
    if (!found_memory) [[unlikely]] {
      if (!outcome.first_failure) outcome.first_failure = {row, pool.shortage()};
      if (!options.goes_on) break;
    }
    const double now = modelled_us();
    if (now != before) [[unlikely]] {
      if (trace.op[row] == TraceColumns::allocate) outcome.longest_us = std::max(outcome.longest_us, now - before);
      before = now;
    }
    ++outcome.rows;
  }
  outcome.cpu_seconds = thread_seconds() - start;
  if (every != 0) sampler.begin(outcome.rows, modelled_us());
  return outcome;
}

}  // namespace memlake
