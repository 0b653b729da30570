#pragma once

// DeviceMemory: memlake's memory of one device as PyTorch sees it: requests that either succeed or throw PyTorch's
// OutOfMemoryError, statistics, history, the profiler's reports.

#include <memlake.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "attachments.hpp"
#include "history.hpp"
#include "routes.hpp"
#include "segments.hpp"
#include "statistics.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

inline std::string text_of_bytes(uint64_t size) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (size < 1024) return std::to_string(size) + " bytes";
  double value = static_cast<double>(size) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < 4; ++unit) value /= 1024;
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

class DeviceMemory {
 public:
  DeviceMemory(DeviceIndex device, CUDAAllocator& native, const HistorySettings& settings,
               const Attachments& attachments)
      : history(settings, device), device_(device), native_(native), settings_(settings), attachments_(attachments) {}

  Routes routes;
  History history;

  /// The configuration of the pools that are made from now on. The present pool serves no further request.
  void configure(const std::string& conf) {
    const std::lock_guard lock(mutex_);
    conf_ = conf;
    if (pool_.load() == nullptr) return;
    memlake_torch_set_pool(device_, nullptr);
    pool_.store(nullptr);
  }

  /// Null until the first request.
  memlake_pool* present_pool() const { return pool_.load(std::memory_order_acquire); }

  memlake_pool* pool() {
    memlake_pool* const pool = present_pool();
    return pool != nullptr ? pool : make_pool();
  }

  /// pre: size > 0.
  void* take(size_t size, cudaStream_t stream) {
    memlake_pool* const pool = this->pool();
    void* taken = nullptr;
    if (settings_.is_wanted()) [[unlikely]] {
      taken = take_with_history(pool, size, stream);
    } else {
      taken = memlake_pool_try_allocate(pool, size, stream);
      if (taken == nullptr) [[unlikely]]
        taken = take_when_scarce(pool, size, stream);
    }
    report(taken, static_cast<int64_t>(size));
    if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]]
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(taken));
    return taken;
  }

  /// To be called before memory of this device is freed, while a history is recorded.
  void note_free_request(const memlake_block_t& block, Context context) {
    void* const address = reinterpret_cast<void*>(block.address);
    if (context == nullptr) context = history.stack_of(address);
    history.note(TraceEntry::FREE_REQUESTED, block.address, block.requested, static_cast<cudaStream_t>(block.stream),
                 std::move(context), attachments_.metadata());
  }

  /// To be called after memory of this device was freed.
  void note_freed(void* address, size_t size) {
    // With an observer the stack goes when the block is free again.
    if (history.has_stacks() && !settings_.is_wanted()) [[unlikely]]
      history.drop_stack(address);
    report(address, -static_cast<int64_t>(size));
    if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]]
      (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  }

  /// Adds memlake's figures to those of PyTorch's own allocator.
  void add_to(DeviceStats& stats) const {
    memlake_pool* const pool = present_pool();
    memlake_pool_counts_t counts{};
    counts.struct_size = sizeof(counts);
    if (pool != nullptr && memlake_pool_counts(pool, &counts) == MEMLAKE_OK) add(stats, counts);
  }
  size_t largest_free() const {
    memlake_pool* const pool = present_pool();
    memlake_pool_counts_t counts{};
    counts.struct_size = sizeof(counts);
    return pool != nullptr && memlake_pool_counts(pool, &counts) == MEMLAKE_OK ? counts.largest_free : 0;
  }
  void reset_peaks() {
    if (memlake_pool* const pool = present_pool()) memlake_pool_reset_peaks(pool);
  }
  void reset_totals() {
    if (memlake_pool* const pool = present_pool()) memlake_pool_reset_totals(pool);
  }

  /// The history is recorded from now on, or no longer.
  void watch() {
    const std::lock_guard lock(mutex_);
    if (memlake_pool* const pool = present_pool()) observe(pool);
  }

  std::vector<SegmentInfo> segments() const {
    SegmentList list(device_, history);
    if (memlake_pool* const pool = present_pool())
      memlake_pool_visit_blocks(
          pool,
          [](const memlake_block_t* block, void* list) {
            static_cast<SegmentList*>(list)->add(*block);
            return 0;
          },
          &list);
    return list.take();
  }

  /// Lets `peer` use the memory of this device, also the memory of a pool that is made later.
  void add_peer(DeviceIndex peer) {
    const std::lock_guard lock(mutex_);
    peers_.push_back(peer);
    if (memlake_pool* const pool = present_pool()) enable_peer(pool, peer);
  }

 private:
  memlake_pool* make_pool() {
    const std::lock_guard lock(mutex_);
    if (memlake_pool* const pool = present_pool()) return pool;
    memlake_pool* const pool = memlake_torch_pool(device_, conf_.c_str());
    TORCH_CHECK(pool != nullptr, "memlake: ", memlake_last_error());
    memlake_pool_count_by_size(pool);
    if (settings_.is_wanted()) observe(pool);
    for (const DeviceIndex peer : peers_) enable_peer(pool, peer);
    pool_.store(pool, std::memory_order_release);
    return pool;
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
                 std::move(stack), {});
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

  [[gnu::cold]] void* take_with_history(memlake_pool* pool, size_t size, cudaStream_t stream) {
    const Context stack = settings_.gather(RecordContext::STATE);
    const auto note = [&](void* taken) {
      history.keep_stack(taken, stack);
      history.note(TraceEntry::ALLOC, reinterpret_cast<size_t>(taken), size, stream, stack, attachments_.metadata());
    };
    {
      const std::lock_guard lock(history.order);
      if (void* const taken = memlake_pool_try_allocate(pool, size, stream)) {
        note(taken);
        return taken;
      }
    }
    // Callbacks run Python code, so no lock is held. The entry is then in order with the calls of this thread only.
    void* const taken = take_when_scarce(pool, size, stream);
    note(taken);
    return taken;
  }

  /// For a request that memlake refused: everything that may give memory back elsewhere, then once more.
  [[gnu::cold]] void* take_when_scarce(memlake_pool* pool, size_t size, cudaStream_t stream) {
    require_out_of_memory();
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
      c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    empty_native();
    if (void* const taken = memlake_pool_allocate(pool, size, stream)) return taken;
    require_out_of_memory();
    throw_out_of_memory(size, stream, memlake_last_error());
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

  [[noreturn, gnu::cold]] void throw_out_of_memory(size_t size, cudaStream_t stream, const std::string& reason) {
    size_t free = 0;
    size_t total = 0;
    {
      const c10::DeviceGuard guard(c10::Device(c10::kCUDA, device_));
      C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    }
    history.note(TraceEntry::OOM, free, size, stream, settings_.gather(RecordContext::STATE), attachments_.metadata());
    const auto [allocated, held] = levels();
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), allocated, held, c10::Device(c10::kCUDA, device_));
    attachments_.call_observers(device_, size, total, free);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", text_of_bytes(size), ". GPU ",
                     static_cast<int>(device_), " has a total capacity of ", text_of_bytes(total), " of which ",
                     text_of_bytes(free), " is free. Of the allocated memory ", text_of_bytes(allocated),
                     " is allocated by PyTorch, and ", text_of_bytes(held - std::min(held, allocated)),
                     " is reserved by PyTorch but unallocated. memlake: ", reason);
    throw;  // not reached: the line above throws
  }

  /// Allocated and held bytes, PyTorch's own included.
  std::pair<uint64_t, uint64_t> levels() const {
    DeviceStats stats = native_.getDeviceStats(device_);
    add_to(stats);
    return {static_cast<uint64_t>(stats.allocated_bytes[0].current),
            static_cast<uint64_t>(stats.reserved_bytes[0].current)};
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
  std::mutex mutex_;  // guards the members below and the making of the pool
  std::string conf_;
  std::vector<DeviceIndex> peers_;
};

}  // namespace memlake_torch
