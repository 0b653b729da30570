#pragma once

// LivePool: a pool for programs, for use from any thread, on a real driver or the emulator. It adds to Pool the lock,
// CUDA's streams and events, and its own call counters.
//
// One lock guards everything; some policies make long driver calls without it (UnlockedScope). A forked child cannot
// use the pool. The pool checks that before it locks: a thread that does not exist in the child may hold the lock.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/lock.hpp"
#include "driver/counting_driver.hpp"
#include "policies/shareable/shareable_space.hpp"
#include "policies/torch/graph_rules.hpp"
#include "pool/pool.hpp"
#include "runtime/address_table.hpp"
#include "runtime/lease.hpp"
#include "runtime/neighbours.hpp"
#include "runtime/snapshot.hpp"
#include "streams/driver_events.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

/// Thrown by allocate_at() if there is no memory.
struct NoMemory {
  Shortage shortage;
};

/// The figures of one graph pool.
struct GraphPoolStats {
  std::uint64_t uses = 0;   ///< graphs that share it
  std::uint64_t begun = 0;  ///< calls of begin_graph_requests() that have not ended
  Bytes held;
  Level live;
};

/// All figures of a pool at one moment.
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
  std::vector<Counter> policy_counters;                      ///< figures that only this policy has

  struct OfStream {
    CUstream stream = nullptr;
    Bytes live;
    Bytes pending;
    Bytes free;
  };
  std::vector<OfStream> streams;  ///< those that have memory
  std::vector<Bytes> held_on;     ///< by device; empty if the memory of the pool lies on the host
};

/// One block, as callers that know only its address see it.
struct FoundBlock {
  AddressRange range;
  Bytes requested;            ///< 0: it is free
  CUstream stream = nullptr;  ///< that it is for; of a free block: that gets it at once
  AddressRange segment;
  BlockState state = BlockState::free;  ///< free, live or pending
  bool is_small = false;
  bool is_one_allocation = false;  ///< of the driver; else the segment is a reservation with mapped chunks
  GraphPoolId graph_pool;          ///< whose memory it is
};

/// An allocation that a graph pool had at an earlier moment.
struct EarlierAllocation {
  AddressRange range;
  Bytes requested;
  CUstream stream = nullptr;  ///< that it was for
};

/// PyTorch's statistics of a pool; the totals and numbers since reset_totals().
struct LiveCounts {
  SizeCounts sizes;
  std::uint64_t retries = 0;
  std::uint64_t ooms = 0;
  std::uint64_t device_allocations = 0;
  std::uint64_t device_frees = 0;
  std::uint64_t host_waits = 0;
  Bytes largest_free;
};

/// An event as an observer outside the pool gets it.
struct LiveEvent {
  MemoryEvent::Kind kind;
  AddressRange range;
  CUstream stream;
  GraphPoolId graph_pool;  ///< whose memory it is
};

/// A live block in the form that another process can import.
struct ExportedBlock {
  Address address;
  Bytes requested;
  std::vector<ExportedChunk> chunks;
};

/// How a pool shares memory with other processes.
struct Sharing {
  ShareableOptions options = {};
  bool is_default_space = false;  ///< whether requests get shareable memory by default
};

class LivePool : public std::enable_shared_from_this<LivePool> {
 public:
  /// Devices of one driver; their numbers in the pool are their places in the list.
  static std::shared_ptr<LivePool> make(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space,
                                        const Limits& limits, const Sharing& sharing = {});
  LivePool(const LivePool&) = delete;
  LivePool& operator=(const LivePool&) = delete;
  /// Waits for the devices and releases everything. It does not wait in a forked child, on a closed device or at exit.
  ~LivePool();

  /// Allocates without a driver call and without waiting; std::nullopt if that is not possible now. For callers that
  /// must not wait.
  std::optional<Lease> allocate_at_once(Bytes requested);
  /// The program destroys no stream of another library while the pool exists: the pool uses their handles at any time.
  /// Callers that know their memory by its address promise that. pre: no other thread knows the pool yet.
  void promise_lasting_streams() { streams_.promise_lasting_streams(); }

  /// Allocates a free block of the pool's default space for a stream that known_stream() gave; std::nullopt if there is
  /// none, or the stream has ended or captures a graph. Asks the driver only about the capture and pending memory.
  std::optional<Lease> allocate_free(Bytes requested, KnownStream stream);
  /// The same for a stream of which only the handle is known. The driver is asked whether it is the stream that the
  /// pool knows by the handle. Error(config) if the driver knows no such stream.
  std::optional<Lease> allocate_free(Bytes requested, CUstream stream);
  /// The stream by its number; Error(config) as allocate(). Valid until the stream ends, see StreamTable.
  KnownStream known_stream(const StreamName& stream);
  /// std::nullopt if there is no memory: then `shortage` gives the reason. `is_shareable`: whether the memory can be
  /// shared with other processes; std::nullopt: the pool's default. `is_single`: whether the memory is one handle.
  std::optional<Lease> allocate(Bytes requested, const StreamName& stream, Shortage& shortage,
                                std::optional<bool> is_shareable = std::nullopt, bool is_single = false);
  /// Exports all live blocks in allocation order, all or nothing. Error(invalid_argument) if one is not shareable.
  std::vector<ExportedBlock> export_everything();

  // For callers that know their memory only by its address and use streams of other libraries. There is no object per
  // allocation. The memory of a Lease cannot be found by its address.

  // pre: promise_lasting_streams() was called, or all streams are memlake's own or default streams.

  // A stream of another library is not asked whether it captures a graph before the driver has to be called. A free is
  // not refused because of its stream: on one that captures or was destroyed, the memory becomes free later.

  /// Throws NoMemory. pre: requested > 0. `counts_refusal`: whether the pool's statistics count a refusal.
  Address allocate_at(Bytes requested, CUstream stream, bool counts_refusal = true);
  /// Frees in the order of the stream for which it was allocated. Error(invalid_free) if no allocation is there.
  void free_at(Address address);
  /// Frees in the order of `stream`, which must be ordered behind all earlier work on the memory.
  void free_at(Address address, CUstream stream);
  /// The same; false if no allocation is there.
  bool try_free_at(Address address, CUstream stream);
  /// As free_at(address); false if no allocation is there, or the pool is closed. `found`: gets the block as it was
  /// before; may be null.
  bool release_at(Address address, FoundBlock* found);
  /// False if no allocation is there, or the pool is closed. `found` may be null.
  bool find_at(Address address, FoundBlock* found) const;
  /// Work on another stream uses the memory.
  void record_use_at(Address address, CUstream stream);
  /// The segment of the allocation. Error(invalid_argument) if the segment is not one allocation of the driver.
  AddressRange segment_at(Address address) const;
  bool is_allocated(Address address) const;
  /// The chunks under the allocation, for other processes, which then see everything that lies in them. The chunks stay
  /// under the allocation until it is freed. Error(config) if the pool has no such chunks.
  ExportedRange export_at(Address address) const;

  // Graph pools (live_pool_graphs.cpp): memory for captured graphs. It keeps its addresses and its chunks, and serves
  // no other request, until the last graph that uses it gives it up.

  /// Whether a request of the calling thread for the stream goes to the graph pool. Called under the pool's lock: it
  /// must not call the pool.
  using RequestFilter = std::function<bool(CUstream)>;
  /// An id that no graph pool of this pool has.
  GraphPoolId make_graph_pool_id();
  /// One more graph uses the graph pool, which is made if necessary. Error(invalid_argument) for {0, 0}.
  void use_graph_pool(GraphPoolId id);
  /// The same; and from now on requests that `takes` accepts go there. Of several that accept, the oldest gets the
  /// request. Returns a number for end_graph_requests().
  std::uint64_t begin_graph_requests(GraphPoolId id, RequestFilter takes);
  /// Ends that; does nothing if it was ended before.
  void end_graph_requests(std::uint64_t number);
  /// Ends the latest of the graph pool. Error(invalid_argument) if there is none.
  void end_graph_requests(GraphPoolId id);
  /// A graph gives the graph pool up: none of its launches comes later. After the last one its memory comes back; if
  /// `may_wait`, at once, behind a wait for the devices. Error(invalid_free) if no graph uses it,
  /// Error(invalid_argument) while requests still go there.
  void release_graph_pool(GraphPoolId id, bool may_wait);
  GraphPoolStats graph_pool_stats(GraphPoolId id) const;
  /// As allocate_at(), from the graph pool, whatever filters say. Error(invalid_argument) if no graph uses it.
  Address allocate_in_graph_pool(GraphPoolId id, Bytes requested, CUstream stream, bool counts_refusal = true);
  /// Sets an earlier state of the graph pool again: frees all its allocations by address, and allocates `earlier`. All
  /// or nothing. `before_free` is called with each block that will be freed, under the pool's lock, when nothing can
  /// fail any more but the host's memory. Error(invalid_argument) says why the state cannot be set.
  void restore_graph_pool(GraphPoolId id, std::span<const EarlierAllocation> earlier,
                          const std::function<void(const FoundBlock&)>& before_free);
  /// See Pool. A request for a stream that captures a graph makes it captured. Error(invalid_argument) if no graph uses
  /// it.
  void set_graph_pool_captured(GraphPoolId id, bool is_captured);
  /// Releases the free memory of the graph pool if no graph uses it any more, behind a wait for the devices.
  void empty_graph_pool(GraphPoolId id);

  /// False if there is no memory: then `shortage` gives the reason.
  bool preallocate(Bytes size, const StreamName& stream, Shortage& shortage);
  /// Returns how much was released.
  Bytes trim(Bytes keep);
  /// Waits for all events, then releases all free memory to the driver.
  void release_cached();
  /// Releases everything. Error(invalid_free) while a buffer is live or requests go to a graph pool, or if the pool was
  /// closed before.
  void close();

  bool is_open() const;
  /// The one of its limits that may be changed at any time.
  void set_limit(Bytes limit);
  /// The share of the device's memory that PyTorch's setting allows.
  void set_memory_fraction(Bytes fraction);
  /// Also of a closed pool.
  [[nodiscard]] Limits limits() const;
  void reset_peaks();
  void reset_held_peak();
  void reset_active_peak();
  /// The peak of live and pending memory since the last call.
  Bytes take_recent_peak();
  /// See Space.
  void set_reuse_rules(const ReuseRules& rules);
  /// How much memory stays held when the program waits. CUDA's own pools apply it themselves; for the other policies
  /// the layer above does, which is told of the waits.
  void set_release_threshold(Bytes threshold);
  /// Also of a closed pool.
  [[nodiscard]] Bytes release_threshold() const;
  std::optional<ReuseRules> reuse_rules() const;
  /// See Space. If it takes access away, it waits for the work of the pool's devices and of those that lose it.
  void set_peers(const std::vector<std::shared_ptr<Device>>& peers);
  /// Adds one to them, unless it is one of them. Error(invalid_argument) if it cannot reach the pool's devices.
  void add_peer(const std::shared_ptr<Device>& peer);
  /// Removes one from them, if it is one of them; waits as set_peers() does.
  void remove_peer(const Device& peer);

  // For watchers; see Pool.
  void count_by_size();
  /// Error(config) before count_by_size().
  LiveCounts counts();
  /// From now on the peaks of counts() are those of the pool and of what is outside it. Error(config) before
  /// count_by_size().
  void count_outside(const SizeLevels& outside);
  /// The numbers of counts() begin at 0 again, and those of stats_since_reset().
  void reset_totals();
  /// The figures of stats() without a walk over the blocks, with the numbers since reset_totals().
  PoolStats stats_since_reset(Bytes& limit) const;
  /// All blocks that have memory, in the order of their addresses.
  std::vector<FoundBlock> blocks() const;
  /// Calls `tell` for each event under the lock; empty: ends it. When it returns, no call of an earlier one is under
  /// way.
  void observe(std::function<void(const LiveEvent&)> tell);
  LiveStats stats() const;
  /// The figures of stats() that need no walk over the blocks and no sums over driver calls. The others are 0 or empty.
  LiveStats totals() const;
  /// The streams of stats(). It walks over all blocks.
  std::vector<LiveStats::OfStream> by_stream() const;
  Snapshot snapshot() const;
  std::optional<std::string> find_broken_invariant() const;

  /// Whether at least `mark` is held now, and less was held at some time since this last returned true. Of several
  /// threads, only one gets true.
  bool has_risen_to(Bytes mark);

  /// Bytes held now; cheaper than stats().
  Bytes held() const;

  /// Records every operation from now on. Error(config) if it is recording already.
  void start_recording();
  /// The rows recorded since start_recording().
  RowLog stop_recording();

  /// The policy with its options as a text; "" if the maker of the pool did not set it.
  const std::string& policy_text() const noexcept { return policy_text_; }
  /// pre: no other thread knows the pool yet.
  void set_policy_text(std::string text) { policy_text_ = std::move(text); }
  /// The devices beside its own that may use its memory; none if the pool is closed.
  std::vector<std::shared_ptr<Device>> peers() const;
  Location location() const noexcept { return location_; }
  const Sharing& sharing() const noexcept { return sharing_; }

  /// The number of streams in its tables: those that exist, and those that have ended and may still have work.
  std::size_t stream_count() const;

  /// An object of the layer above that lives as long as the pool; the pool does not use it. The layer above guards it.
  std::shared_ptr<void>& attachment() noexcept { return attachment_; }

  /// The devices that the caller passed to make().
  const std::vector<std::shared_ptr<Device>>& devices() const noexcept { return given_; }

 private:
  friend class Lease;
  friend struct test::LockSabotage;  // holds the lock, so that threads meet there

  LivePool(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space, const Limits& limits,
           const Sharing& sharing);

  /// False if the block needs free(), or is pinned. Reads `pins` under the lock, because they change only there.
  bool free_at_once(Block* block, StreamId stream, const std::atomic<std::uint32_t>& pins);
  /// pre: the lock is held, and the pool is open.
  std::optional<Lease> allocate_free_locked(std::unique_lock<Lock>& lock, Bytes requested, KnownStream stream);
  /// Runs `work`, an operation of the pool that may have to wait for a stream. The thread waits without the lock, then
  /// begins the operation anew. If other threads always free memory of the stream meanwhile, it waits with the lock.
  template <class Work>
  auto waiting(std::unique_lock<Lock>& lock, Work&& work);
  /// Returns the stream that was waited for, if no memory became free on it meanwhile.
  std::optional<KnownStream> wait_unlocked(std::unique_lock<Lock>& lock, const HostWait& wait);
  /// `choose`: the space; called again behind every wait, because graph pools come and go.
  template <class Choose>
  Block* allocate_waiting(std::unique_lock<Lock>& lock, Choose&& choose, Bytes requested, StreamId stream);
  /// pre: the lock is held, unless can_undo() is false. Then this does nothing.
  void free_locked(Block* block, StreamId stream);
  /// For a caller that cannot try again and names no stream: streams of other libraries may be gone by now.
  void free_dropped(Block* block, StreamId stream);
  /// pre: as for free_locked().
  void free_dropped_locked(Block* block, StreamId stream);
  void record_use(const Lease& lease, Block* block, const StreamName& stream);
  StreamName name_of(KnownStream stream) const;
  [[nodiscard]] bool is_default_stream(StreamId stream) const;
  /// The number of a stream; the driver is asked about one of another library. Error(config) if the driver knows none,
  /// or, unless `may_be_elsewhere`, if it is not of a device of the pool. pre: the lock is held.
  StreamId number_of(const StreamName& stream, bool may_be_elsewhere = false);

  /// pre: the lock is held. Error(invalid_free) if no allocation is there.
  AddressTable::Place place_of(Address address) const;
  /// The number of a stream of which only the handle is known. pre: the lock is held. Error(config) as above, for a
  /// stream that is new here. A handle that CUDA gave to another stream is not noticed.
  StreamId number_of(CUstream stream, bool may_be_elsewhere);
  /// The same for a free, which is not refused because of its stream: one that the driver does not know has ended.
  StreamId number_for_free(CUstream stream);
  [[nodiscard]] FoundBlock found(const Space& space, const Block& block) const;
  /// The numbers of counts() since the pool was made, without its sizes. pre: the lock is held.
  [[nodiscard]] LiveCounts numbers() const;
  [[noreturn]] static void refuse(Address address);
  [[noreturn]] void refuse_for_lack_of_memory(bool is_counted);

  /// Releases all memory.
  void end_memory();
  /// After the pool: what could not be undone is tried once more.
  void end_leftovers();
  void require_usable() const;
  void require_open_locked() const;
  /// Locks an open pool; Error(closed) if it is closed. Before it locks, it throws if the process was forked or a
  /// device is closed.
  [[nodiscard]] std::unique_lock<Lock> open_lock() const;
  /// Error(config) if the driver knows no such stream.
  [[nodiscard]] bool is_capturing(const StreamName& stream) const;
  /// Describes the request that was refused last, and releases addresses that it may have left. pre: the lock is held.
  Shortage shortage_locked();

  /// Runs `work` with the lock held; without it if can_undo() is false: a forked child has no other thread.
  template <class Work>
  auto with_lock(Work&& work) const {
    if (!can_undo()) return std::forward<Work>(work)();
    const std::lock_guard lock(mutex_);
    return std::forward<Work>(work)();
  }
  /// Whether its objects on the devices still exist.
  bool can_undo() const noexcept;
  void synchronize();
  /// The space that serves a request. pre: the lock is held.
  Space& space_for(bool is_shareable);
  /// The graph pool to which a request of this thread goes; std::nullopt: to none. pre: the lock is held.
  [[nodiscard]] std::optional<GraphPoolId> graph_pool_for(CUstream stream) const {
    if (routes_.empty()) [[likely]]
      return std::nullopt;
    return route_of(stream);
  }
  [[nodiscard]] std::optional<GraphPoolId> route_of(CUstream stream) const;
  Space& graph_space(GraphPoolId id, StreamId stream);
  /// Error(invalid_argument) if no graph uses it.
  void require_graph_pool(GraphPoolId id) const;
  /// If many graph pools have ended since the host waited: waits, and releases their memory.
  void release_many_ended(std::unique_lock<Lock>& lock);
  /// The path of all allocations by address. `choose`: as for allocate_waiting(), with the number of the stream.
  template <class Choose>
  Address allocate_by_address(Bytes requested, CUstream stream, bool counts_refusal, Choose&& choose);
  void add_shareable_space();
  /// The space of blocks that are one handle each. pre: the lock is held.
  ShareableSpace& single_space();
  ShareableSpace& add_space(const ShareableOptions& options, bool is_default);
  /// The space of the block if its memory can be exported, else null.
  [[nodiscard]] ShareableSpace* exporting_space(const Block& block) const;
  /// Whether the refused call used a feature that memory can do without. Then that feature is turned off.
  bool goes_without_feature(const Error& error);
  /// Runs `work`; again if the driver has refused a feature that memory can do without.
  template <class Work>
  auto without_refused_features(Work&& work) {
    while (true) {
      try {
        return work();
      } catch (const Error& error) {
        if (!goes_without_feature(error)) throw;
      }
    }
  }
  /// set_peers(). pre: changing_peers_ is held, and mutex_ is not.
  void change_peers(const std::vector<std::shared_ptr<Device>>& peers);
  /// totals(), and the figures that need a walk over the blocks. pre: the lock is held.
  LiveStats totals_now() const;
  void add_blocks_to(LiveStats& stats) const;
  // Where the first `size` bytes of a block of the space lie; memory that lies side by side in one place is one piece.
  // pre: the lock is held, and the block has memory.
  static std::vector<std::pair<std::size_t, Bytes>> pieces_of(const Space& space, const Block& block, Bytes size);
  std::vector<ExportedBlock> export_blocks(const std::vector<const Block*>& blocks);

  /// Requests that go to a graph pool.
  struct Route {
    std::uint64_t number;
    GraphPoolId id;
    RequestFilter takes;
  };

  /// Unlocks the pool for a thread, and counts the threads that are in an unlocked scope.
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
    std::uint64_t left_ = 0;     // unlocked scopes that ended
    std::condition_variable_any has_left_;
  };

  std::vector<std::shared_ptr<Device>> given_;
  const Sharing sharing_;
  std::shared_ptr<void> attachment_;
  std::string policy_text_;
  CountingDriver counting_;
  const std::shared_ptr<Leftovers> leftovers_ = std::make_shared<Leftovers>();
  std::vector<std::shared_ptr<Device>> devices_;  // the same devices through counting_
  std::mutex changing_peers_;                     // held from the reading of the peers to their change; before mutex_
  mutable Lock mutex_;                            // guards everything below
  PoolUnlocker unlocker_{*this};
  StreamTable streams_;
  DriverEvents events_;
  std::optional<Pool> pool_;             // empty after close()
  const Location location_;              // of the memory of pool_
  ShareableSpace* shareable_ = nullptr;  // null until it is needed
  ShareableSpace* single_ = nullptr;     // null until it is needed
  std::vector<Route> routes_;            // oldest first
  std::uint64_t routes_made_ = 0;
  std::uint64_t graph_pools_made_ = 0;  // by make_graph_pool_id()
  AddressTable by_address_;             // the blocks of allocate_at()
  std::unique_ptr<RowLog> log_;
  Limits limits_;
  Bytes release_threshold_ = Budget::kUnlimited;
  LiveCounts before_reset_;             // the numbers at the last reset_totals()
  PoolStats stats_before_reset_;        // likewise
  std::optional<Neighbour> neighbour_;  // empty after close()
};

}  // namespace memlake
