#pragma once

// LockedPool::waiting(), and the request that is served with such waits.

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "driver/result.hpp"
#include "runtime/live_sharing.hpp"
#include "runtime/locked_pool.hpp"

namespace memlake {

template <class Work>
auto LockedPool::waiting(std::unique_lock<Lock>& lock, Work&& work) {
  struct Throwing {
    DriverWaits& waits;
    Throwing(DriverWaits& of, std::optional<KnownStream> granted, bool is_refused, bool has_waited_for_devices)
        : waits(of) {
      waits.begin_throwing(granted, is_refused, has_waited_for_devices);
    }
    ~Throwing() { waits.end_throwing(); }
  };
  // So often an operation begins anew because it had to wait. Each time it has got further, unless other threads use
  // the same streams.
  constexpr int kMostWaits = 64;
  std::optional<KnownStream> granted;
  bool is_refused = false;
  bool has_waited_for_devices = false;
  for (int begun = 0; begun < kMostWaits; ++begun) {
    std::optional<HostWait> wait;
    try {
      const Throwing throwing(streams_.waits, granted, is_refused, has_waited_for_devices);
      return work();
    } catch (HostWait& thrown) {
      wait.emplace(std::move(thrown));
    }
    try {
      granted = wait_unlocked(lock, *wait);
      has_waited_for_devices |= wait->is_for_devices;
    } catch (const Error& error) {
      // Not a failure of this operation: some thread captures a graph on a stream of the device.
      if (!is_about_capture(error)) throw;
      granted.reset();
      is_refused = true;
    }
  }
  return work();
}

/// The block for a request, behind all waits that it needs; null if there is no memory. `choose`: the space; called
/// again behind every wait, because graph pools come and go. pre: the lock is held.
template <class Choose>
Block* serve_with_waits(LockedPool& locked, LiveSharing& sharing, std::unique_lock<Lock>& lock, Choose&& choose,
                        Bytes requested, StreamId stream) {
  RequestRow row;
  try {
    Block* block = sharing.without_refused_features([&] {
      return locked.waiting(lock, [&] { return locked.pool().allocate(choose(), requested, stream, &row); });
    });
    locked.pool().end_request(row);
    return block;
  } catch (...) {
    if (locked.is_open()) locked.pool().give_up(row, stream);
    throw;
  }
}

}  // namespace memlake
