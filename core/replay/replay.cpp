#include "replay/replay.hpp"

#include <algorithm>
#include <ctime>
#include <vector>

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
  Player(const TraceColumns& trace, Pool& pool, TraceEvents& events, bool takes_in_advance)
      : trace_(trace), pool_(pool), events_(events), takes_in_advance_(takes_in_advance) {}

  /// False if a request found no memory.
  bool play(std::size_t row) {
    const std::uint32_t id = trace_.id[row];
    events_.set_row(row);
    switch (trace_.op[row]) {
      case TraceColumns::allocate:
        if (live_.size() <= id) live_.resize(std::size_t{id} + 1);
        if (trace_.bytes[row] == 0) return true;
        live_[id] = pool_.allocate({trace_.bytes[row]}, trace_.stream[row]);
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
      default:
        return true;
    }
  }

 private:
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
  bool takes_in_advance_;
  std::vector<Block*> live_;  // by id; null where nothing is live
};

}  // namespace

ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, const ReplayOptions& options) {
  ReplayOutcome outcome;
  Player player(trace, pool, events, options.takes_in_advance);
  const std::uint64_t every = options.rows_per_sample;
  std::uint64_t next_sample = every == 0 ? UINT64_MAX : 0;
  const auto sample = [&] {
    outcome.timeline.push_back({outcome.rows, pool.stats().allocated.now, pool.stats().held.now});
  };
  const auto modelled_us = [&] { return options.calls == nullptr ? 0.0 : options.calls->modelled_us(); };
  double before = modelled_us();
  const double start = thread_seconds();
  for (std::size_t row = 0; row < trace.op.size(); ++row) {
    if (row == next_sample) [[unlikely]] {
      sample();
      next_sample += every;
    }
    if (!player.play(row)) [[unlikely]] {
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
  if (every != 0) sample();
  return outcome;
}

}  // namespace memlake
