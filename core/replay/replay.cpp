#include "replay/replay.hpp"

#include <ctime>
#include <vector>

namespace memlake {

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

ReplayOutcome replay(const TraceColumns& trace, Pool& pool, TraceEvents& events, bool goes_on) {
  ReplayOutcome outcome;
  std::vector<Block*> blocks;  // by id; null where nothing is live
  const double start = thread_seconds();
  for (std::size_t row = 0; row < trace.op.size(); ++row) {
    const std::uint32_t id = trace.id[row];
    events.set_row(row);
    switch (trace.op[row]) {
      case TraceColumns::allocate: {
        if (blocks.size() <= id) blocks.resize(id + 1);
        if (trace.bytes[row] == 0) break;
        blocks[id] = pool.allocate({trace.bytes[row]}, trace.stream[row]);
        if (blocks[id] != nullptr) break;
        if (!outcome.failed_row) outcome.failed_row = row;
        if (!goes_on) {
          outcome.cpu_seconds = thread_seconds() - start;
          return outcome;
        }
        break;
      }
      case TraceColumns::free:
        if (id >= blocks.size() || blocks[id] == nullptr) break;
        events.freeing(id);
        pool.free(blocks[id]);
        blocks[id] = nullptr;
        break;
      case TraceColumns::record_stream:
        if (id < blocks.size() && blocks[id] != nullptr) pool.record_use(blocks[id], trace.stream[row]);
        break;
      case TraceColumns::event_done:
        events.done(id);
        break;
      case TraceColumns::synchronise:
        events.all_done();
        break;
      case TraceColumns::empty_cache:
        pool.release_cached();
        break;
      default:
        break;
    }
    ++outcome.rows;
  }
  outcome.cpu_seconds = thread_seconds() - start;
  return outcome;
}

}  // namespace memlake
