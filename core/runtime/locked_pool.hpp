#pragma once

// LockedPool: a pool with its lock, its devices, its streams and its events. The parts of a live pool (allocation,
// memory by address, graph pools, sharing, figures, settings) all work on it.
//
// One lock guards everything; some policies make long driver calls without it (UnlockedScope). A forked child cannot
// use the pool. The pool checks that before it locks: a thread that does not exist in the child may hold the lock.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/lock.hpp"
#include "driver/counting_driver.hpp"
#include "pool/pool.hpp"
#include "runtime/neighbours.hpp"
#include "streams/driver_streams.hpp"

namespace memlake {

class LockedPool {
  friend struct test::LockSabotage;  // holds the lock, so that threads meet there

 public:
  LockedPool(Devices devices, const SpaceMaker& make_space, const Limits& limits);
  LockedPool(const LockedPool&) = delete;
  LockedPool& operator=(const LockedPool&) = delete;
  /// Waits for the devices and releases everything. It does not wait in a forked child, on a closed device or at exit.
  ~LockedPool();

  /// From now on driver calls are counted: the calls that made the pool are not.
  void begin_counting() { counting_.reset(); }
  /// The owner of this object. An interrupted wait goes on after its call has returned, so it shares the ownership.
  void set_owner(std::weak_ptr<void> owner) noexcept { owner_ = std::move(owner); }

  // The lock.

  /// Whether the pool's objects on the devices still exist.
  [[nodiscard]] bool can_undo() const noexcept {
    for (const auto& device : devices_)
      if (!device->can_undo()) [[unlikely]]
        return false;
    return true;
  }
  /// Throws if the process was forked or a device is closed.
  void require_usable() const;
  /// Locks an open pool. Error(closed) if it is closed. Throws like require_usable() before it locks. Always inlined:
  /// every operation begins with it, and a call would be 5 % of one.
  [[nodiscard, gnu::always_inline]] std::unique_lock<Lock> open_lock() const {
    if (!can_undo()) [[unlikely]]
      require_usable();
    std::unique_lock lock(mutex_);
    require_open();
    return lock;
  }
  /// Locks an open pool. If the pool cannot be used or is closed, the lock that it returns holds nothing.
  [[nodiscard]] std::unique_lock<Lock> lock_if_open() const {
    if (!can_undo()) [[unlikely]]
      return {};
    std::unique_lock lock(mutex_);
    if (!pool_) [[unlikely]]
      lock.unlock();
    return lock;
  }
  /// The lock as lock_if_open() gives it; it holds nothing if another thread has the lock.
  [[nodiscard]] std::unique_lock<Lock> try_lock_if_open() const {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && !pool_) [[unlikely]]
      lock.unlock();
    return lock;
  }
  /// Locks a pool that may be closed. Throws if the process was forked.
  [[nodiscard]] std::unique_lock<Lock> any_lock() const;
  /// Runs `work` with the lock held; without it if can_undo() is false: a forked child has no other thread.
  template <class Work>
  auto with_lock(Work&& work) const {
    if (!can_undo()) return std::forward<Work>(work)();
    const std::lock_guard lock(mutex_);
    return std::forward<Work>(work)();
  }
  /// Waits until no thread is in an unlocked scope: an operation that changes shared state calls it first. pre: the
  /// lock is held.
  void wait_for_unlocked_scopes() noexcept { unlocker_.wait_for_all(); }

  // What the lock guards. pre: the lock is held.

  [[nodiscard]] bool is_open() const noexcept { return pool_.has_value(); }
  /// Error(closed) if the pool is closed.
  void require_open() const {
    if (!pool_) [[unlikely]]
      refuse_closed();
  }
  /// pre: the pool is open.
  [[nodiscard]] Pool& pool() noexcept { return *pool_; }
  [[nodiscard]] const Pool& pool() const noexcept { return *pool_; }
  [[nodiscard]] DriverStreams& streams() noexcept { return streams_; }
  [[nodiscard]] const DriverStreams& streams() const noexcept { return streams_; }
  [[nodiscard]] Unlocker& unlocker() noexcept { return unlocker_; }
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  void set_limits(const Limits& limits);
  /// Describes the request that was refused last, and releases addresses that it may have left.
  [[nodiscard]] Shortage shortage();
  /// Runs `work`, an operation of the pool that may have to wait for a stream. The thread waits without the lock, then
  /// begins the operation anew. If other threads always free memory of the stream meanwhile, it waits with the lock.
  /// Defined in runtime/waiting.hpp.
  template <class Work>
  auto waiting(std::unique_lock<Lock>& lock, Work&& work);
  /// Closes the pool: releases all memory.
  void end();

  // What does not change while the pool exists.

  /// The devices that the caller passed.
  [[nodiscard]] const Devices& given() const noexcept { return given_; }
  /// The devices that the caller passed, with calls that counting() counts.
  [[nodiscard]] const Devices& devices() const noexcept { return devices_; }
  [[nodiscard]] const CountingDriver& counting() const noexcept { return counting_; }
  /// Other devices, with calls that counting() counts.
  [[nodiscard]] Devices counted(const Devices& devices);
  /// Where the memory of the policy lies.
  [[nodiscard]] Location location() const noexcept { return location_; }
  /// Waits for all work of the devices.
  void synchronize();
  /// The policy with its options as a text; "" if the maker of the pool did not set it.
  [[nodiscard]] const std::string& policy_text() const noexcept { return policy_text_; }
  /// pre: no other thread knows the pool yet.
  void set_policy_text(std::string text) { policy_text_ = std::move(text); }

 private:
  /// Unlocks the pool for a thread, and counts the threads that are in an unlocked scope.
  class PoolUnlocker final : public Unlocker {
   public:
    explicit PoolUnlocker(LockedPool& pool) : pool_(pool) {}
    void unlock() noexcept override;
    void lock_again() noexcept override;
    void wait_for_others() noexcept override;
    void wait_for_all() noexcept;

   private:
    LockedPool& pool_;
    std::uint64_t entered_ = 0;  // unlocked scopes that began
    std::uint64_t left_ = 0;     // unlocked scopes that ended
    std::condition_variable_any has_left_;
  };

  [[noreturn]] static void refuse_closed();
  /// Returns the stream that was waited for, if no memory became free on it meanwhile.
  std::optional<KnownStream> wait_unlocked(std::unique_lock<Lock>& lock, const HostWait& wait);

  const Devices given_;
  CountingDriver counting_;
  const std::shared_ptr<Leftovers> leftovers_ = std::make_shared<Leftovers>();
  const Devices devices_;  // the same devices through counting_
  std::weak_ptr<void> owner_;
  std::string policy_text_;
  mutable Lock mutex_;  // guards everything below
  PoolUnlocker unlocker_{*this};
  DriverStreams streams_;
  std::optional<Pool> pool_;  // empty after end()
  const Location location_;   // of the memory of pool_
  Limits limits_;
  std::optional<Neighbour> neighbour_;  // empty after end()
};

}  // namespace memlake
