// The part of LiveFigures for programs that watch a pool: PyTorch's statistics, and events.

#include <utility>

#include "base/error.hpp"
#include "runtime/live_figures.hpp"

namespace memlake {

namespace {

std::uint64_t successes(const CountingDriver& driver, std::initializer_list<Call> calls) {
  std::uint64_t sum = 0;
  for (const Call call : calls) sum += driver.count(call) - driver.failures(call);
  return sum;
}

}  // namespace

void LiveFigures::count_by_size() {
  const auto lock = locked_.open_lock();
  locked_.pool().watchers().count_by_size();
}

LiveCounts LiveFigures::numbers() const {
  const PoolStats stats = locked_.pool().figures().stats();
  LiveCounts numbers;
  numbers.retries = stats.retries;
  numbers.ooms = stats.ooms;
  numbers.device_allocations =
      successes(locked_.counting(), {Call::cuMemCreate, Call::cuMemAlloc, Call::cuMemAllocFromPoolAsync});
  numbers.device_frees = successes(locked_.counting(), {Call::cuMemRelease, Call::cuMemFree, Call::cuMemFreeAsync});
  numbers.host_waits = locked_.streams().waits.count();
  return numbers;
}

LiveCounts LiveFigures::counts() {
  const auto lock = locked_.open_lock();
  const SizeCounts* sizes = locked_.pool().watchers().size_counts();
  if (sizes == nullptr)
    throw Error(ErrorKind::config, "the pool does not count by size; call memlake_pool_count_by_size() first");
  LiveCounts counts = numbers();
  counts.sizes = *sizes;
  counts.retries -= before_reset_.retries;
  counts.ooms -= before_reset_.ooms;
  counts.device_allocations -= before_reset_.device_allocations;
  counts.device_frees -= before_reset_.device_frees;
  counts.host_waits -= before_reset_.host_waits;
  counts.largest_free = locked_.pool().spaces().largest_free();
  return counts;
}

void LiveFigures::count_outside(const SizeLevels& outside) {
  const auto lock = locked_.open_lock();
  SizeCounts* const sizes = locked_.pool().watchers().size_counts_at_once();
  if (sizes == nullptr)
    throw Error(ErrorKind::config, "the pool does not count by size; call memlake_pool_count_by_size() first");
  sizes->set_outside(outside);
}

void LiveFigures::reset_totals() {
  const auto lock = locked_.open_lock();
  before_reset_ = numbers();
  stats_before_reset_ = locked_.pool().figures().stats();
  if (SizeCounts* sizes = locked_.pool().watchers().size_counts()) sizes->reset_totals();
}

PoolStats LiveFigures::stats_since_reset(Bytes& limit) const {
  const auto lock = locked_.open_lock();
  limit = locked_.pool().spaces().budget()->limit;
  PoolStats stats = locked_.pool().figures().stats();
#define LEVEL(name)
#define COUNT(name) stats.name -= stats_before_reset_.name;
#include "pool/statistics.inc"
#undef LEVEL
#undef COUNT
  return stats;
}

void LiveFigures::observe(std::function<void(const LiveEvent&)> tell) {
  const auto lock = locked_.open_lock();
  if (!tell) return locked_.pool().watchers().observe({});
  locked_.pool().watchers().observe([locked = &locked_, tell = std::move(tell)](const MemoryEvent& event) {
    tell({event.kind, event.range, locked->streams().table.handle_of(event.stream), event.graph_pool});
  });
}

}  // namespace memlake
