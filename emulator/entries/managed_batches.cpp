// Batches of prefetches and discards of managed memory.

#include <span>
#include <vector>

#include "entries/batches.hpp"
#include "entries/managed_ranges.hpp"

namespace memlake::emulator {

namespace {

struct Batch {
  Stream& stream;
  std::vector<Touch> ranges;
};

Batch checked_batch(Session& session, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                    unsigned long long flags, CUstream handle) {
  Driver& driver = session.driver;
  Batch batch{stream_of_batch(session, handle), {}};
  if (flags != 0) invalid("flags must be 0");
  if (count == 0) invalid("count is 0");
  required(addresses, "dptrs");
  required(sizes, "sizes");
  for (size_t i = 0; i < count; ++i) {
    check_managed(driver, addresses[i], sizes[i]);
    batch.ranges.push_back({addresses[i], sizes[i], false});
  }
  return batch;
}

/// The home of each range of a batch.
std::vector<PageHome> homes_of(Session& session, size_t count, const CUmemLocation* locations, const size_t* starts,
                               size_t number) {
  required(locations, "prefetchLocs");
  std::vector<PageHome> homes;
  for (size_t i = 0; i < number; ++i) homes.push_back(checked_home(session.driver, locations[i]));
  std::vector<PageHome> of_each;
  for (const size_t entry : entries_of_batch(count, starts, number, "prefetchLocIdxs")) of_each.push_back(homes[entry]);
  return of_each;
}

enum class Discards { no, yes };

void prefetch_all(Session& session, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                  const CUmemLocation* locations, const size_t* starts, size_t number, unsigned long long flags,
                  CUstream stream, Discards discards) {
  Batch batch = checked_batch(session, addresses, sizes, count, flags, stream);
  const std::vector<PageHome> homes = homes_of(session, count, locations, starts, number);
  enqueue_on_ranges(session, batch.stream, batch.ranges);
  for (size_t i = 0; i < count; ++i) {
    if (discards == Discards::yes) session.driver.managed.discard(addresses[i], sizes[i]);
    session.driver.managed.prefetch(addresses[i], sizes[i], homes[i]);
  }
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                CUmemLocation* locations, size_t* starts, size_t number,
                                                unsigned long long flags, CUstream stream) {
  return enter(Call::cuMemPrefetchBatchAsync, MEMLAKE_CALLER, [&](Session& session) {
    prefetch_all(session, addresses, sizes, count, locations, starts, number, flags, stream, Discards::no);
  });
}

MEMLAKE_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                          CUmemLocation* locations, size_t* starts, size_t number,
                                                          unsigned long long flags, CUstream stream) {
  return enter(Call::cuMemDiscardAndPrefetchBatchAsync, MEMLAKE_CALLER, [&](Session& session) {
    prefetch_all(session, addresses, sizes, count, locations, starts, number, flags, stream, Discards::yes);
  });
}

MEMLAKE_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                               unsigned long long flags, CUstream stream) {
  return enter(Call::cuMemDiscardBatchAsync, MEMLAKE_CALLER, [&](Session& session) {
    Batch batch = checked_batch(session, addresses, sizes, count, flags, stream);
    enqueue_on_ranges(session, batch.stream, batch.ranges);
    for (const Touch& range : batch.ranges) session.driver.managed.discard(range.address, range.size);
  });
}

}  // namespace memlake::emulator
