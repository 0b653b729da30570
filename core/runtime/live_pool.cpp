#include "runtime/live_pool.hpp"

#include <string>
#include <utility>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/relaxed_capture.hpp"
#include "runtime/published_figures.hpp"

namespace memlake {

std::shared_ptr<LivePool> LivePool::make(Devices devices, const SpaceMaker& make_space, const Limits& limits,
                                         const Sharing& sharing) {
  const RelaxedCapture relaxed(&devices.front()->library().unwrapped());
  std::shared_ptr<LivePool> pool(new LivePool(std::move(devices), make_space, limits, sharing));
  pool->locked_.set_owner(pool);
  publication_changed();
  return pool;
}

LivePool::LivePool(Devices devices, const SpaceMaker& make_space, const Limits& limits, const Sharing& sharing)
    : locked_(std::move(devices), make_space, limits),
      graphs_(locked_),
      sharing_(locked_, sharing),
      by_address_(locked_, graphs_, sharing_),
      figures_(locked_),
      settings_(locked_) {
  locked_.begin_counting();
}

Bytes LivePool::trim(Bytes keep) {
  const auto lock = locked_.open_lock();
  Pool& pool = locked_.pool();
  const auto all = [&] {
    const PoolSpaces& spaces = pool.spaces();
    return spaces.held().now + spaces.budget()->unreleased + spaces.spilled().now;
  };
  const Bytes before = all();
  pool.trim(keep);
  locked_.streams().events.shrink();
  return before - all();
}

void LivePool::close() {
  const auto lock = locked_.any_lock();
  locked_.wait_for_unlocked_scopes();
  if (!locked_.is_open()) throw Error(ErrorKind::invalid_free, "the pool is closed already");
  if (locked_.can_undo()) {
    if (const PoolStats stats = locked_.pool().figures().stats(); stats.allocated.now.count > 0)
      throw Error(ErrorKind::invalid_free, "the pool still has " + std::to_string(stats.allocations - stats.frees) +
                                               " live buffers of " + std::to_string(stats.requested.now.count) +
                                               " bytes in all; close them first");
    graphs_.require_no_requests();
    locked_.synchronize();  // unmapping does not wait for the device
  }
  graphs_.drop_requests();
  locked_.end();
}

std::size_t LivePool::stream_count() const {
  const auto lock = locked_.open_lock();
  return locked_.streams().table.size();
}

std::optional<std::string> LivePool::find_broken_invariant() const {
  const auto lock = locked_.open_lock();
  return locked_.pool().find_broken_invariant();
}

void LivePool::start_recording() {
  const auto lock = locked_.open_lock();
  locked_.wait_for_unlocked_scopes();  // a request that is being served has no row, and would get a free
  locked_.require_open();
  if (log_ != nullptr) throw Error(ErrorKind::config, "the pool is recording already; stop that recording first");
  log_ = std::make_unique<RowLog>();
  locked_.pool().write_to(log_.get());
}

RowLog LivePool::stop_recording() {
  const auto lock = locked_.any_lock();
  if (log_ == nullptr) throw Error(ErrorKind::config, "the pool is not recording");
  if (locked_.is_open()) locked_.pool().write_to(nullptr);
  return std::move(*std::exchange(log_, nullptr));
}

}  // namespace memlake
