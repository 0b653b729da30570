#pragma once

// DeviceMemory: memlake's memory of one device as PyTorch sees it: requests that either succeed or throw PyTorch's
// OutOfMemoryError, statistics, history, the profiler's reports.

#include <memlake.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "attachments.hpp"
#include "blocks.hpp"
#include "history.hpp"
#include "native_failure.hpp"
#include "private_pools.hpp"
#include "routes.hpp"
#include "segments.hpp"
#include "statistics.hpp"
#include "text_of_bytes.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

class DeviceMemory {
 public:
  DeviceMemory(DeviceIndex device, CUDAAllocator& native, const HistorySettings& settings,
               const Attachments& attachments)
      : private_pools(device, native),
        native_share(native, device),
        history(settings, device),
        device_(device),
        native_(native),
        settings_(settings),
        attachments_(attachments) {}

  Routes routes;
  PrivatePools private_pools;
  NativeShare native_share;
  History history;

  /// The configuration of the pools that are made from now on. A pool with another configuration serves no further
  /// request; its memory stays part of all figures.
  void configure(const std::string& conf) {
    const std::lock_guard lock(mutex_);
    is_serving_.store(true);
    const bool is_same = conf == conf_;
    conf_ = conf;
    memlake_pool* const pool = pool_.load();
    if (pool == nullptr || is_same) return;
    memlake_torch_set_pool(device_, nullptr);
    earlier_.push_back(pool);
    has_earlier_.store(true);
    pool_.store(nullptr);
  }

  /// Null until the first request.
  memlake_pool* present_pool() const { return pool_.load(std::memory_order_acquire); }

  memlake_pool* pool() {
    memlake_pool* const pool = present_pool();
    return pool != nullptr ? pool : make_pool();
  }

  /// pre: size > 0. `target`: a private pool with memory of memlake's; nothing: the default pool.
  void* take(size_t size, cudaStream_t stream, const std::optional<Target>& target) {
    const Target from = target ? *target : Target{kDefaultPool, pool()};
    void* taken = nullptr;
    if (settings_.is_wanted()) [[unlikely]] {
      taken = take_with_history(from, size, stream);
    } else {
      taken = from.try_take(size, stream);
      if (taken == nullptr) [[unlikely]]
        taken = take_when_scarce(from, size, stream);
    }
    tell_of_taken(taken, size);
    return taken;
  }

  /// The filter with which PyTorch's own allocator is told of a private pool that has memlake's memory. It gets no
  /// request of it but those that are to fail, unless memlake is uninstalled before the program is done with the pool.
  Routes::Filter native_filter(PoolId id, std::shared_ptr<const Routes::Filter> filter) const {
    return [this, id, filter = std::move(filter)](cudaStream_t stream) {
      return is_serving_.load(std::memory_order_relaxed) ? NativeFailure::is_of(id) : (*filter)(stream);
    };
  }

  /// Frees the live blocks of the private pool and takes those of an earlier state again, or throws and changes
  /// nothing. Returns what it freed.
  std::vector<memlake_block_t> restore(const Target& target, const std::vector<memlake_block_t>& earlier) {
    const Context stack_of_free = settings_.gather(RecordContext::ALL);
    const Context stack = settings_.gather(RecordContext::STATE);
    Restoring restoring{*this, target.id, stack_of_free, {}};
    {
      const std::lock_guard lock(history.order);
      TORCH_CHECK(memlake_pool_restore_graph(target.memory, target.id.first, target.id.second, earlier.data(),
                                             earlier.size(), &Restoring::before_free, &restoring) == MEMLAKE_OK,
                  "memlake: ", memlake_last_error());
      if (settings_.is_wanted())
        for (const memlake_block_t& block : earlier)
          note_taken(reinterpret_cast<void*>(block.address), block.requested, static_cast<cudaStream_t>(block.stream),
                     target.id, stack);
    }
    for (const memlake_block_t& block : restoring.freed)
      note_freed(reinterpret_cast<void*>(block.address), block.requested);
    for (const memlake_block_t& block : earlier) tell_of_taken(reinterpret_cast<void*>(block.address), block.requested);
    return std::move(restoring.freed);
  }

  /// To be called before memory of this device is freed, while a history is recorded.
  void note_free_request(const memlake_block_t& block, PoolId pool, Context context) {
    void* const address = reinterpret_cast<void*>(block.address);
    if (context == nullptr) context = history.stack_of(address);
    history.note(TraceEntry::FREE_REQUESTED, block.address, block.requested, static_cast<cudaStream_t>(block.stream),
                 pool, std::move(context), attachments_.metadata());
  }

  /// To be called after memory of this device was freed.
  void note_freed(void* address, size_t size) {
    // With an observer the stack goes when the block is free again.
    if (history.has_stacks() && !settings_.is_wanted()) [[unlikely]]
      history.drop_stack(address);
    if (has_unused_pools()) [[unlikely]] {
      release_unused();  // it may have been memory of such a pool
      note_outside();
    }
    report(address, -static_cast<int64_t>(size));
    if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]]
      (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }

  /// Adds memlake's figures to those of PyTorch's own allocator.
  void add_to(DeviceStats& stats) {
    for (memlake_pool* const pool : all_pools()) add(stats, counts_of(pool));
    raise_peaks(stats);
    private_pools.add_to(stats);
  }
  size_t largest_free() const {
    memlake_pool* const pool = present_pool();
    return pool == nullptr ? 0 : counts_of(pool).largest_free;
  }
  void reset_peaks() {
    for (memlake_pool* const pool : all_pools()) memlake_pool_reset_peaks(pool);
    private_pools.reset_peaks();
  }
  void reset_totals() {
    for (memlake_pool* const pool : all_pools()) memlake_pool_reset_totals(pool);
    private_pools.reset_totals();
  }

  /// To be called after memory of this device outside the present pool was taken or given back.
  void note_outside() {
    if (memlake_pool* const pool = present_pool()) tell_pool_of_outside(pool);
  }

  /// The share of the device that PyTorch may use, in both allocators together.
  double fraction() {
    double known = fraction_.load();
    if (known >= 0) return known;
    const double found = native_.initialized() ? native_share.get() : 1;
    return fraction_.compare_exchange_strong(known, found) ? found : known;
  }
  void set_fraction(double fraction) {
    native_share.set(fraction);  // refuses what is not from 0 to 1
    fraction_.store(fraction);
    has_fraction_.store(fraction < 1);
    if (fraction >= 1 && present_pool() != nullptr) memlake_torch_fraction(1, device_);
    apply_fraction();
  }
  /// Divides what the fraction leaves: each allocator may have what the other one does not hold.
  void apply_fraction() {
    if (!has_fraction_.load(std::memory_order_relaxed)) return;
    const double share = fraction();
    const auto total = static_cast<double>(total_memory());
    const auto held = static_cast<double>(held_by_memlake());
    const auto native = static_cast<double>(native_.getDeviceStats(device_).reserved_bytes[0].current);
    native_share.set(std::clamp(share - held / total, 0.0, 1.0));
    if (present_pool() != nullptr) memlake_torch_fraction(std::clamp(share - native / total, 0.0, 1.0), device_);
  }

  /// No request comes any more. PyTorch's own allocator may have the whole fraction again.
  void end() {
    is_serving_.store(false);
    if (has_fraction_.load()) native_share.set(fraction());
  }

  /// Gives memlake's cached memory back if the device has less than this left. Waits for no stream.
  void make_room(size_t size) {
    if (memory_info().first >= size) return;
    for (memlake_pool* const pool : all_pools()) memlake_pool_trim(pool, 0);
  }

  /// Gives back what is cached by pools that serve no request: nobody would ever use it. Waits for no stream.
  void release_unused() {
    private_pools.settle();  // PyTorch's own allocator alone is told of releases while memlake is not installed
    std::vector<memlake_pool*> unused;
    {
      const std::lock_guard lock(mutex_);
      unused = is_serving_.load() ? earlier_ : pools_locked();
    }
    for (memlake_pool* const pool : unused) memlake_pool_trim(pool, 0);
  }

  /// The history is recorded from now on, or no longer.
  void watch() {
    const std::lock_guard lock(mutex_);
    for (memlake_pool* const pool : pools_locked()) observe(pool);
  }

  /// `only`: of this private pool alone; kDefaultPool: of all.
  std::vector<SegmentInfo> segments(PoolId only) const {
    SegmentList list(device_, history);
    for (memlake_pool* const pool : all_pools())
      for_each_block(pool, [&](const memlake_block_t& block, PoolId id) {
        if (only == kDefaultPool || only == id) list.add(block, id);
      });
    return list.take();
  }

  /// Lets `peer` use the memory of this device, also the memory of a pool that is made later.
  void add_peer(DeviceIndex peer) {
    const std::lock_guard lock(mutex_);
    peers_.push_back(peer);
    for (memlake_pool* const pool : pools_locked()) enable_peer(pool, peer);
  }

 private:
  /// What restore() is freeing.
  struct Restoring {
    DeviceMemory& memory;
    const PoolId pool;
    const Context stack;
    std::vector<memlake_block_t> freed;

    static void before_free(const memlake_block_t* block, void* self) {
      auto& restoring = *static_cast<Restoring*>(self);
      restoring.freed.push_back(*block);
      if (restoring.memory.settings_.is_wanted())
        restoring.memory.note_free_request(*block, restoring.pool, restoring.stack);
    }
  };

  bool has_unused_pools() const {
    return has_earlier_.load(std::memory_order_relaxed) || !is_serving_.load(std::memory_order_relaxed);
  }

  /// The present pool and the earlier ones.
  std::vector<memlake_pool*> all_pools() const {
    const std::lock_guard lock(mutex_);
    return pools_locked();
  }
  std::vector<memlake_pool*> pools_locked() const {
    std::vector<memlake_pool*> pools = earlier_;
    if (memlake_pool* const pool = present_pool()) pools.push_back(pool);
    return pools;
  }

  void tell_pool_of_outside(memlake_pool* pool) {
    DeviceStats outside = native_.getDeviceStats(device_);
    if (has_earlier_.load(std::memory_order_relaxed)) {
      std::vector<memlake_pool*> earlier;
      {
        const std::lock_guard lock(mutex_);
        earlier = earlier_;
      }
      for (memlake_pool* const other : earlier)
        if (other != pool) add(outside, counts_of(other));
    }
    tell_outside(pool, outside);
  }

  /// Free and total bytes of the device.
  std::pair<size_t, size_t> memory_info() const {
    const c10::DeviceGuard guard(c10::Device(c10::kCUDA, device_));
    size_t free = 0;
    size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return {free, total};
  }
  size_t total_memory() const { return memory_info().second; }
  uint64_t held_by_memlake() const {
    uint64_t held = 0;
    for (memlake_pool* const pool : all_pools()) held += stats_of(pool).held;
    return held;
  }

  memlake_pool* make_pool() {
    memlake_pool* made = nullptr;
    has_fraction_.store(fraction() < 1);
    {
      const std::lock_guard lock(mutex_);
      if (memlake_pool* const pool = present_pool()) return pool;
      made = memlake_torch_pool(device_, conf_.c_str());
      TORCH_CHECK(made != nullptr, "memlake: ", memlake_last_error());
      memlake_pool_count_by_size(made);
      if (settings_.is_wanted()) observe(made);
      for (const DeviceIndex peer : peers_) enable_peer(made, peer);
      pool_.store(made, std::memory_order_release);
    }
    tell_pool_of_outside(made);
    apply_fraction();
    warn_of_useless_limit(made);
    return made;
  }

  /// The size of the device was not known when the limit was given.
  void warn_of_useless_limit(memlake_pool* pool) const {
    const uint64_t limit = stats_of(pool).limit;
    const size_t total = total_memory();
    if (limit == UINT64_MAX || limit <= total) return;
    TORCH_WARN("memlake: the limit of ", text_of_bytes(limit), " is above the ", text_of_bytes(total), " of device ",
               static_cast<int>(device_), ", so it limits nothing; give less, or a share such as \"90%\"");
  }

  static void enable_peer(memlake_pool* pool, DeviceIndex peer) {
    TORCH_CHECK(memlake_pool_enable_peer(pool, peer) == MEMLAKE_OK, "memlake: ", memlake_last_error());
  }

  void observe(memlake_pool* pool) {
    if (settings_.is_wanted()) {
      memlake_pool_observe(pool, &DeviceMemory::on_event, this);
    } else {
      memlake_pool_observe(pool, nullptr, nullptr);
    }
  }

  static void on_event(const memlake_event_t* event, void* self) {
    static_cast<DeviceMemory*>(self)->note_event(*event);
  }

  void note_event(const memlake_event_t& event) {
    Context stack;
    if (event.kind == MEMLAKE_EVENT_FREE_COMPLETED) {
      const void* const address = reinterpret_cast<const void*>(event.address);
      stack = history.stack_of(address);
      history.drop_stack(address);
    }
    history.note(action_of(event.kind), event.address, event.size, static_cast<cudaStream_t>(event.stream),
                 {event.graph_first, event.graph_second}, std::move(stack), {});
  }

  static TraceEntry::Action action_of(int kind) {
    switch (kind) {
      case MEMLAKE_EVENT_SEGMENT_ALLOC:
        return TraceEntry::SEGMENT_ALLOC;
      case MEMLAKE_EVENT_SEGMENT_FREE:
        return TraceEntry::SEGMENT_FREE;
      case MEMLAKE_EVENT_SEGMENT_MAP:
        return TraceEntry::SEGMENT_MAP;
      case MEMLAKE_EVENT_SEGMENT_UNMAP:
        return TraceEntry::SEGMENT_UNMAP;
      default:
        return TraceEntry::FREE_COMPLETED;
    }
  }

  void note_taken(void* taken, size_t size, cudaStream_t stream, PoolId pool, const Context& stack) {
    history.keep_stack(taken, stack);
    history.note(TraceEntry::ALLOC, reinterpret_cast<size_t>(taken), size, stream, pool, stack,
                 attachments_.metadata());
  }

  [[gnu::cold]] void* take_with_history(const Target& from, size_t size, cudaStream_t stream) {
    const Context stack = settings_.gather(RecordContext::STATE);
    {
      const std::lock_guard lock(history.order);
      if (void* const taken = from.try_take(size, stream)) {
        note_taken(taken, size, stream, from.id, stack);
        return taken;
      }
    }
    // Callbacks run Python code, so no lock is held. The entry is then in order with the calls of this thread only.
    void* const taken = take_when_scarce(from, size, stream);
    // Of what PyTorch's own allocator gave it has made a note itself.
    if (const auto pool = find_with_pool(taken, device_, nullptr)) note_taken(taken, size, stream, *pool, stack);
    return taken;
  }

  /// For a request that memlake refused: everything that may give memory back elsewhere, then once more. At last
  /// PyTorch's own allocator is asked: it may take a request of the default pool from a MemPool that allows it, and
  /// when it fails, it does everything that a program expects of a failure: it counts, it tells the profiler, the
  /// history and the observers, also those that were attached before memlake was installed.
  [[gnu::cold]] void* take_when_scarce(const Target& from, size_t size, cudaStream_t stream) {
    require_out_of_memory();
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
      c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    empty_native();
    if (has_earlier_.load()) memlake_torch_empty_cache();  // what waits for a stream there, too
    note_outside();
    apply_fraction();
    if (void* const taken = from.try_take(size, stream)) return taken;
    require_out_of_memory();
    const std::string reason = memlake_last_error();
    if (from.id == kDefaultPool)
      for (const Target& other : private_pools.used_on_oom())
        if (void* const taken = other.try_take(size, stream)) return taken;
    const NativeFailure failure(native_, device_, native_share, from, total_memory(), fraction(),
                                [this] { return levels(); });
    try {
      void* const taken = native_.raw_alloc_with_stream(size, stream);
      note_outside();
      return taken;
    } catch (const c10::OutOfMemoryError&) {
    }
    throw_out_of_memory(size, reason);
  }

  static void require_out_of_memory() {
    TORCH_CHECK(memlake_last_error_code() == MEMLAKE_ERROR_OUT_OF_MEMORY, "memlake: ", memlake_last_error());
  }

  /// What PyTorch's own allocator caches. It refuses while a graph is captured.
  void empty_native() {
    try {
#if TORCH_VERSION_MINOR >= 8
      native_.emptyCache(kDefaultPool);
#else
      native_.emptyCache();
#endif
    } catch (const c10::Error&) {
    }
  }

  [[noreturn, gnu::cold]] void throw_out_of_memory(size_t size, const std::string& reason) {
    const auto [free, total] = memory_info();
    const auto [allocated, held] = levels();
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", text_of_bytes(size), ". GPU ",
                     static_cast<int>(device_), " has a total capacity of ", text_of_bytes(total), " of which ",
                     text_of_bytes(free), " is free. Of the allocated memory ", text_of_bytes(allocated),
                     " is allocated by PyTorch, and ", text_of_bytes(held - std::min(held, allocated)),
                     " is reserved by PyTorch but unallocated. memlake: ", reason);
    throw;  // not reached: the line above throws
  }

  /// Allocated and held bytes, PyTorch's own included.
  std::pair<uint64_t, uint64_t> levels() const {
    const DeviceStats native = native_.getDeviceStats(device_);
    auto allocated = static_cast<uint64_t>(native.allocated_bytes[0].current);
    auto held = static_cast<uint64_t>(native.reserved_bytes[0].current);
    for (memlake_pool* const pool : all_pools()) {
      const memlake_pool_stats_t own = stats_of(pool);
      allocated += own.allocated;
      held += own.held;
    }
    return {allocated, held};
  }

  void tell_of_taken(void* taken, size_t size) const {
    report(taken, static_cast<int64_t>(size));
    if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]]
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(taken));
  }
  void report(void* address, int64_t size) const {
    if (!c10::memoryProfilingEnabled()) [[likely]]
      return;
    const auto [allocated, held] = levels();
    c10::reportMemoryUsageToProfiler(address, size, allocated, held, c10::Device(c10::kCUDA, device_));
  }

  const DeviceIndex device_;
  CUDAAllocator& native_;
  const HistorySettings& settings_;
  const Attachments& attachments_;
  std::atomic<memlake_pool*> pool_{nullptr};
  std::atomic<bool> is_serving_{false};  // memlake is installed
  std::atomic<bool> has_earlier_{false};
  std::atomic<bool> has_fraction_{false};
  std::atomic<double> fraction_{-1};  // what the program set; negative: not known yet
  // Guards the members below and the making of the pool. PyTorch's own allocator is not called under it: its lock is
  // held when it calls make_room().
  mutable std::mutex mutex_;
  std::string conf_;
  std::vector<memlake_pool*> earlier_;  // pools of earlier configurations
  std::vector<DeviceIndex> peers_;
};

}  // namespace memlake_torch
