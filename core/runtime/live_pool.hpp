#pragma once

// LivePool: a pool for programs, for use from any thread, on a real driver or the emulator. It leases memory. Its parts
// have the rest: memory by address, graph pools, sharing, figures and settings, all on one LockedPool.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/lease.hpp"
#include "runtime/live_figures.hpp"
#include "runtime/live_graphs.hpp"
#include "runtime/live_settings.hpp"
#include "runtime/live_sharing.hpp"
#include "runtime/locked_pool.hpp"
#include "runtime/memory_by_address.hpp"

namespace memlake {

class LivePool : public std::enable_shared_from_this<LivePool> {
 public:
  /// Devices of one driver; their numbers in the pool are their places in the list.
  static std::shared_ptr<LivePool> make(Devices devices, const SpaceMaker& make_space, const Limits& limits,
                                        const Sharing& sharing = {});
  LivePool(const LivePool&) = delete;
  LivePool& operator=(const LivePool&) = delete;
  /// Ends the pool as ~LockedPool() does.
  ~LivePool() = default;

  // Its parts.

  [[nodiscard]] MemoryByAddress& by_address() noexcept { return by_address_; }
  [[nodiscard]] const MemoryByAddress& by_address() const noexcept { return by_address_; }
  [[nodiscard]] LiveGraphs& graphs() noexcept { return graphs_; }
  [[nodiscard]] LiveSharing& sharing() noexcept { return sharing_; }
  [[nodiscard]] LiveFigures& figures() noexcept { return figures_; }
  [[nodiscard]] const LiveFigures& figures() const noexcept { return figures_; }
  [[nodiscard]] LiveSettings& settings() noexcept { return settings_; }
  [[nodiscard]] const LiveSettings& settings() const noexcept { return settings_; }

  // Leases, in the order in which a caller tries them.

  /// Leases memory of the default stream without a driver call and without waiting; std::nullopt if that is not
  /// possible now. For callers that must not wait.
  std::optional<Lease> lease_at_once(Bytes requested);
  /// Leases a free block of the pool's default space for a stream that known_stream() gave; std::nullopt if there is
  /// none, or the stream has ended or captures a graph. Asks the driver only about the capture and pending memory.
  std::optional<Lease> lease_free_block(Bytes requested, KnownStream stream);
  /// Leases a free block for a stream of which only the handle is known. The driver is asked whether it is the stream
  /// that the pool knows by the handle. Error(config) if the driver knows no such stream.
  std::optional<Lease> lease_free_block(Bytes requested, CUstream stream);
  /// Leases memory by all means. std::nullopt if there is no memory: then `shortage` gives the reason. `is_shareable`:
  /// whether the memory can be shared with other processes; std::nullopt: the pool's default. `is_single`: whether the
  /// memory is one handle.
  std::optional<Lease> allocate(Bytes requested, const StreamName& stream, Shortage& shortage,
                                std::optional<bool> is_shareable = std::nullopt, bool is_single = false);

  /// The stream by its number; Error(config) as allocate(). Valid until the stream ends, see StreamTable.
  KnownStream known_stream(const StreamName& stream);
  /// The program destroys no stream of another library while the pool exists: the pool uses their handles at any time.
  /// Callers that know their memory by its address promise that. pre: no other thread knows the pool yet.
  void promise_lasting_streams() { locked_.streams().table.promise_lasting_streams(); }
  /// The number of streams in its tables: those that exist, and those that have ended and may still have work.
  [[nodiscard]] std::size_t stream_count() const;

  // The pool's memory as a whole.

  /// False if there is no memory: then `shortage` gives the reason.
  bool preallocate(Bytes size, const StreamName& stream, Shortage& shortage);
  /// Returns how much was released.
  Bytes trim(Bytes keep);
  /// Waits for all events, then releases all free memory to the driver.
  void release_cached();
  /// Releases everything. Error(invalid_free) while a buffer is live or requests go to a graph pool, or if the pool was
  /// closed before.
  void close();
  [[nodiscard]] bool is_open() const { return locked_.lock_if_open().owns_lock(); }
  [[nodiscard]] std::optional<std::string> find_broken_invariant() const;

  /// Records every operation from now on. Error(config) if it is recording already.
  void start_recording();
  /// The rows recorded since start_recording().
  RowLog stop_recording();

  // What its maker gave it.

  /// The policy with its options as a text; "" if the maker of the pool did not set it.
  [[nodiscard]] const std::string& policy_text() const noexcept { return locked_.policy_text(); }
  /// pre: no other thread knows the pool yet.
  void set_policy_text(std::string text) { locked_.set_policy_text(std::move(text)); }
  /// Where the memory of the policy lies.
  [[nodiscard]] Location location() const noexcept { return locked_.location(); }
  /// The devices that the caller passed to make().
  [[nodiscard]] const Devices& devices() const noexcept { return locked_.given(); }
  /// An object of the layer above that lives as long as the pool; the pool does not use it. The layer above guards it.
  [[nodiscard]] std::shared_ptr<void>& attachment() noexcept { return attachment_; }

 private:
  friend class Lease;
  friend struct test::LockSabotage;  // holds the lock, so that threads meet there

  LivePool(Devices devices, const SpaceMaker& make_space, const Limits& limits, const Sharing& sharing);

  /// pre: the lock is held, and the pool is open.
  std::optional<Lease> lease_free_block_locked(std::unique_lock<Lock>& lock, Bytes requested, KnownStream stream);

  std::shared_ptr<void> attachment_;
  std::unique_ptr<RowLog> log_;  // the lock guards it; before locked_, which writes to it until it ends
  LockedPool locked_;
  LiveGraphs graphs_;
  LiveSharing sharing_;
  MemoryByAddress by_address_;
  LiveFigures figures_;
  LiveSettings settings_;
};

}  // namespace memlake
