#pragma once

// LivePool: a pool that programs use, from any thread, on a real driver or the emulator. Adds to Pool the lock, the
// streams as CUDA knows them, the driver's events and counters of its own.
//
// One lock guards everything; long driver calls of some policies are made without it (UnlockedScope). In a forked child
// nothing is done, and that is found out before the lock: a thread that does not exist there may hold it.

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.hpp"
#include "driver/counting_driver.hpp"
#include "policies/shareable/shareable_space.hpp"
#include "pool/pool.hpp"
#include "runtime/address_table.hpp"
#include "runtime/lease.hpp"
#include "runtime/neighbours.hpp"
#include "streams/driver_events.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

/// Thrown where a request by address finds no memory.
struct NoMemory {
  Shortage shortage;
};

/// One block, as it was at the moment of a snapshot.
struct BlockRecord {
  std::uint64_t segment;  ///< address of its segment
  std::uint64_t segment_size;
  std::uint64_t page;  ///< of an expandable segment, else 0
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t requested;
  std::uint64_t stream;  ///< handle
  std::uint64_t state;   ///< BlockState
  std::uint64_t is_small;
  std::uint64_t id;
  std::uint64_t on_host;  ///< bytes that lie on the host because the devices had no room
};

/// Everything that is counted, from one moment.
struct LiveStats {
  PoolStats pool;
  Bytes limit;
  Bytes largest_free;
  std::uint64_t live_count = 0;
  std::uint64_t pending_count = 0;
  std::uint64_t segment_count = 0;
  std::uint64_t host_waits = 0;
  double modelled_us = 0;
  std::vector<std::pair<const char*, std::uint64_t>> calls;  ///< by CUDA name; only those that were made
  std::vector<Counter> policy_counters;                      ///< what only this policy counts

  struct OfStream {
    CUstream stream = nullptr;
    Bytes live;
    Bytes pending;
    Bytes free;
  };
  std::vector<OfStream> streams;  ///< those that have anything
};

/// A live block as another process may be given it.
struct ExportedBlock {
  Address address;
  Bytes requested;
  std::vector<ExportedChunk> chunks;
};

/// How a pool shares memory with other processes.
struct Sharing {
  ShareableOptions options = {};
  bool is_default_space = false;  ///< whether requests that say nothing about it get memory that can be shared
};

class LivePool : public std::enable_shared_from_this<LivePool> {
 public:
  /// Devices of one driver; their numbers in the pool are their places in the list.
  static std::shared_ptr<LivePool> make(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space,
                                        const Limits& limits, const Sharing& sharing = {});
  LivePool(const LivePool&) = delete;
  LivePool& operator=(const LivePool&) = delete;
  /// Waits for the device and gives everything back; in a child, on a closed device or at exit nothing.
  ~LivePool();

  /// Without a driver call and without waiting; nothing if that is not possible now. For callers that must not wait.
  std::optional<Lease> allocate_at_once(Bytes requested, const StreamName& stream);
  /// Nothing if there is no memory: then `shortage` says why. `is_shareable`: whether other processes may be given it;
  /// nothing: as is usual in this pool.
  std::optional<Lease> allocate(Bytes requested, const StreamName& stream, Shortage& shortage,
                                std::optional<bool> is_shareable = std::nullopt);
  /// All that is live, in the order of the allocations; all or nothing. Error(config) if something cannot be exported.
  std::vector<ExportedBlock> export_everything();

  // For callers that know their memory by its address alone, and whose streams belong to somebody else. No object per
  // allocation; memory of a Lease is not among it.

  /// Throws NoMemory. pre: requested > 0.
  Address allocate_at(Bytes requested, CUstream stream);
  /// In the order of the stream that it was allocated for. Error(invalid_free) if nothing was allocated there.
  void free_at(Address address);
  /// In the order of `stream`, whose work must be behind all earlier work on it.
  void free_at(Address address, CUstream stream);
  /// The same; false if nothing was allocated there.
  bool try_free_at(Address address, CUstream stream);
  /// Work on another stream uses it.
  void record_use_at(Address address, CUstream stream);
  /// The memory of one piece that it lies in. Error(invalid_argument) if its segment is not of one piece.
  AddressRange segment_at(Address address) const;
  bool is_allocated(Address address) const;

  /// False if there is no memory: then `shortage` says why.
  bool preallocate(Bytes size, const StreamName& stream, Shortage& shortage);
  /// How much went.
  Bytes trim(Bytes keep);
  /// Gives everything that is free back to the driver, after waiting for all events.
  void release_cached();
  /// Gives everything back. Error(invalid_free) while something is live, or when it was closed before.
  void close();

  bool is_open() const;
  /// The one of its limits that may be changed at any time.
  void set_limit(Bytes limit);
  void set_limits(const Limits& limits);
  [[nodiscard]] Limits limits() const;
  void reset_peaks();
  void reset_held_peak();
  void reset_active_peak();
  /// The most that was live or pending since this was last asked.
  Bytes take_recent_peak();
  /// See Space.
  void set_reuse_rules(const ReuseRules& rules);
  /// See Space.
  void set_release_threshold(Bytes threshold);
  std::optional<ReuseRules> reuse_rules() const;
  /// See Space.
  void set_peers(const std::vector<std::shared_ptr<Device>>& peers);
  LiveStats stats() const;
  std::vector<BlockRecord> snapshot() const;
  std::optional<std::string> find_broken_invariant() const;

  /// Whether as much as `mark` is held and less was since this last answered yes. Of several threads, one hears yes.
  bool has_risen_to(Bytes mark);

  /// Bytes held now; cheap.
  Bytes held() const;

  /// Writes every operation down from now on. Error(config) if it is recording already.
  void start_recording();
  /// What was written since.
  RowLog stop_recording();

  /// The devices that the caller gave.
  const std::vector<std::shared_ptr<Device>>& devices() const noexcept { return given_; }

 private:
  friend class Lease;
  friend struct test::LockSabotage;  // holds the lock, so that threads meet there

  LivePool(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space, const Limits& limits,
           const Sharing& sharing);

  /// False if it must go through free(), or if it is pinned: only the lock keeps the pins as they are.
  bool free_at_once(Block* block, StreamId stream, const std::atomic<std::uint32_t>& pins);
  void free(Block* block, StreamId stream);
  /// pre: the lock is held, unless there is nothing left to undo. Then this does nothing.
  void free_locked(Block* block, StreamId stream);
  /// When its uses cannot be recorded: waits for the devices instead.
  void free_after_wait(Block* block, StreamId stream);
  void record_use(const Lease& lease, Block* block, const StreamName& stream);
  StreamName name_of(StreamId stream) const;

  /// pre: the lock is held. Error(invalid_free) if nothing was allocated there.
  AddressTable::Place place_of(Address address) const;
  /// The stream that a bare handle means.
  StreamName name_of(CUstream stream) const;
  [[noreturn]] static void refuse(Address address);
  [[noreturn]] void refuse_for_lack_of_memory();

  void require_usable() const;
  void require_open_locked() const;
  /// The lock of a pool that can be used. Throws Error(closed), or that the process was forked, before it locks.
  [[nodiscard]] std::unique_lock<Lock> open_lock() const;
  /// Error(config) if the driver knows no such stream.
  [[nodiscard]] bool is_capturing(const StreamName& stream) const;
  /// Memory cannot be ordered in a stream whose work is only being written down.
  void require_not_capturing(const StreamName& stream) const;
  void require_not_capturing(StreamId stream) const;
  /// About the request that was refused last; gives back what addresses it may have left.
  Shortage shortage_locked();

  /// Runs `work` with the lock held; in a child without it, where nobody else runs.
  template <class Work>
  auto with_lock(Work&& work) const {
    if (!can_undo()) return std::forward<Work>(work)();
    const std::lock_guard lock(mutex_);
    return std::forward<Work>(work)();
  }
  /// Whether what it has on its devices still exists.
  bool can_undo() const noexcept;
  void synchronize();
  /// The space that a request is served from. pre: the lock is held.
  Space& space_for(bool is_shareable);
  void add_shareable_space();
  // pre: the lock is held, and the block is live.
  std::vector<std::pair<std::size_t, Bytes>> pieces_of(const Block& block) const;
  std::vector<ExportedBlock> export_blocks(const std::vector<const Block*>& blocks);

  /// Gives up the pool's lock for a thread, and counts the threads that are in an unlocked scope.
  class PoolUnlocker final : public Unlocker {
   public:
    explicit PoolUnlocker(LivePool& pool) : pool_(pool) {}
    void unlock() noexcept override;
    void lock_again() noexcept override;
    void wait_for_others() noexcept override;
    /// Waits until no thread is in an unlocked scope: an operation that changes shared state calls it first. pre: the
    /// calling thread holds the lock.
    void wait_for_all() noexcept;

   private:
    LivePool& pool_;
    std::uint64_t entered_ = 0;  // unlocked scopes that began
    std::uint64_t left_ = 0;     // and ended
    std::condition_variable_any has_left_;
  };

  std::vector<std::shared_ptr<Device>> given_;
  const Sharing sharing_;
  CountingDriver counting_;
  std::vector<std::shared_ptr<Device>> devices_;  // the same, counted
  mutable Lock mutex_;                            // guards everything below
  PoolUnlocker unlocker_{*this};
  StreamTable streams_;
  DriverEvents events_;
  std::optional<Pool> pool_;             // nothing after close()
  ShareableSpace* shareable_ = nullptr;  // of the pool, once it was needed
  AddressTable by_address_;              // what allocate_at() gave
  std::unique_ptr<RowLog> log_;
  Limits limits_;
  std::optional<Neighbour> neighbour_;  // nothing after close()
};

}  // namespace memlake
