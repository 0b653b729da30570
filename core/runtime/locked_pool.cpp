#include "runtime/locked_pool.hpp"

#include <algorithm>
#include <exception>
#include <functional>

#include "base/interrupt.hpp"
#include "base/process.hpp"
#include "base/undo_failure.hpp"
#include "driver/library.hpp"
#include "driver/relaxed_capture.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

/// The library's counting driver, if the device's calls pass it; null if they pass a driver of the caller's.
CountingDriver* counting_of(Device& device) {
  CountingDriver& counting = device.library().counting();
  return &device.driver() == &counting ? &counting : nullptr;
}

/// The driver below that, so that a call is counted in one wrapper.
Driver& uncounted(Device& device) {
  return counting_of(device) == nullptr ? device.driver() : device.library().failing();
}

/// What a wait needs. The wait goes first: it keeps objects whose driver is a part of the pool.
struct Waited {
  std::shared_ptr<void> owner;
  std::function<void()> wait;
};

}  // namespace

LockedPool::LockedPool(Devices devices, const SpaceMaker& make_space, const Limits& limits)
    : given_(std::move(devices)),
      counting_(uncounted(*given_.front()), counting_of(*given_.front())),
      devices_(counted(given_)),
      streams_(devices_),
      pool_(std::in_place,
            make_space(devices_, streams_.events, std::make_shared<Budget>(limits.most(), devices_.size())),
            streams_.events),
      location_(pool_->spaces().policy().devices().location()),
      limits_(limits) {
  for (const auto& device : devices_) device->context();
  pool_->spaces().policy().set_unlocker(unlocker_);
  pool_->set_leftovers(leftovers_);
  neighbour_.emplace(location_ == Location::device ? given_ : Devices{}, pool_->spaces().budget(),
                     pool_->spaces().policy().policy_name());
}

LockedPool::~LockedPool() {
  // Unmapping does not wait for the device, so the pool does.
  const bool has_memory = pool_ && can_undo() && !is_exiting() && pool_->spaces().held().now.count > 0;
  if (has_memory) {
    try {
      synchronize();
    } catch (const Error& error) {
      report_undo_failure(error);
    }
  }
  end();
}

void LockedPool::end() {
  {
    // A process that ends makes no driver call.
    const RelaxedCapture relaxed(can_undo() && !is_exiting() ? streams_.events.driver() : nullptr);
    pool_.reset();
    // After the pool: what could not be undone is tried once more.
    if (!is_exiting() && devices_.front()->is_of_this_process()) leftovers_->end();
  }
  neighbour_.reset();
}

Devices LockedPool::counted(const Devices& devices) {
  Devices same;
  for (const auto& device : devices) {
    same.push_back(std::make_shared<Device>(device, counting_));
    same.back()->keep_leftovers(leftovers_);
    // Before any memory is made: its properties and its granule depend on the answer.
    static_cast<void>(has_feature(same.back(), Feature::rdma));
  }
  return same;
}

void LockedPool::synchronize() {
  const RelaxedCapture relaxed(streams_.events.driver());
  for (const auto& device : devices_) device->synchronize();
}

void LockedPool::require_usable() const {
  devices_.front()->library().require_this_process();
  for (const auto& device : devices_)
    if (!device->is_open()) throw Error(ErrorKind::closed, "the pool's device is closed");
}

void LockedPool::refuse_closed() { throw Error(ErrorKind::closed, "the pool is closed"); }

std::unique_lock<Lock> LockedPool::any_lock() const {
  devices_.front()->library().require_this_process();
  return std::unique_lock(mutex_);
}

void LockedPool::set_limits(const Limits& limits) {
  limits_ = limits;
  pool_->spaces().budget()->limit = limits_.most();
}

Shortage LockedPool::shortage() {
  for (const auto& space : pool_->spaces())
    if (BareAddresses* bare = space->facets().bare_addresses) bare->release_bare_addresses();
  Shortage shortage = pool_->shortage(pool_->spaces().policy().devices().free_outside());
  shortage.limits = limits_;
  shortage.other_pools = neighbour_->held_by_others();
  Bytes sum{0};
  for (const auto& [policy, held] : shortage.other_pools) sum = sum + held;
  // Another pool may have grown since the driver was asked.
  shortage.held_by_other_pools = std::min(sum, shortage.held_elsewhere());
  for (Shortage::Waiting& waiting : shortage.pending_on) waiting.handle = streams_.table.handle_of(waiting.stream);
  return shortage;
}

std::optional<KnownStream> LockedPool::wait_unlocked(std::unique_lock<Lock>& lock, const HostWait& wait) {
  const StreamId stream = wait.stream.value_or(KnownStream{}).number;
  const std::uint64_t freed_before = pool_->pending().begin_host_wait(stream);
  lock.unlock();
  std::exception_ptr error;
  try {
    // An interrupted wait goes on after this call has returned, so it keeps the pool.
    wait_interruptibly([waited = Waited{owner_.lock(), wait.wait}, driver = streams_.events.driver()] {
      const RelaxedCapture relaxed(driver);
      waited.wait();
    });
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  require_open();
  const bool is_unchanged = pool_->pending().end_host_wait(stream) == freed_before;
  if (error != nullptr) std::rethrow_exception(error);
  streams_.waits.note_waited(wait);
  return is_unchanged ? wait.stream : std::nullopt;
}

void LockedPool::PoolUnlocker::unlock() noexcept {
  ++entered_;
  pool_.streams_.waits.end_grant();
  pool_.mutex_.unlock();
}

void LockedPool::PoolUnlocker::lock_again() noexcept {
  pool_.mutex_.lock();
  ++left_;
  has_left_.notify_all();
}

void LockedPool::PoolUnlocker::wait_for_others() noexcept {
  const std::uint64_t until = entered_;
  has_left_.wait(pool_.mutex_, [&] { return left_ >= until; });
}

void LockedPool::PoolUnlocker::wait_for_all() noexcept {
  has_left_.wait(pool_.mutex_, [&] { return left_ == entered_; });
}

}  // namespace memlake
