#pragma once

// Allocator: PyTorch's CUDA allocator with memlake's memory, that of private pools (graphs, MemPool, cudagraph trees)
// included. It wraps PyTorch's own allocator, which still counts who uses a private pool, and still has the memory of
// private pools with an allocator of their own, of those that do not split, and of those from before the installation.
//
// All memory has one deleter, whichever of the two it came from, because PyTorch compares the deleter of a tensor with
// raw_deleter() and takes another one for foreign memory. The deleter asks memlake first, by the address.

#include <memory>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "exchange.hpp"
#include "native_request.hpp"
#include "pool_state.hpp"

namespace memlake_torch {

class Allocator final : public CUDAAllocator {
 public:
  explicit Allocator(CUDAAllocator& native, c10::DeleterFnPtr deleter) : native_(native), deleter_(deleter) {
    for (int device = 0; device < kMostDevices; ++device)
      devices_[device] =
          std::make_unique<DeviceMemory>(static_cast<DeviceIndex>(device), native, settings_, attachments_);
    is_initialized_ = native.initialized();
    MemlakeRoom::devices.store(devices_);
  }

  CUDAAllocator& native() const { return native_; }

  /// Pools that are made from now on have this configuration. `served`: one bit per device; the others keep PyTorch's
  /// own allocator.
  void configure(const std::string& conf, uint64_t served) {
    MemlakeRoom::is_left_behind.store(false);
    for (const auto& memory : devices_) memory->configure(conf);
    attachments_.set_configuration(conf);
    exchange_.configure(conf);
    served_.store(served);
    for (const auto& memory : devices_) memory->private_pools.settle();
    // The program may have ended its history while memlake was not installed.
    if (settings_.is_recording() && !native_.isHistoryEnabled())
      record(false, nullptr, 1, RecordContext::NEVER, true, {});
    note_outside();  // PyTorch's own allocator may have worked alone before
  }

  /// PyTorch's own allocator takes over; the other one needs the room.
  void end() {
    for (const auto& memory : devices_) memory->end();
    memlake_torch_empty_cache();
    MemlakeRoom::is_left_behind.store(true);
  }

  // ---- c10::Allocator

  DataPtr allocate(size_t size) override {
    const DeviceIndex device = c10::cuda::current_device();
    if (size == 0) return {nullptr, nullptr, deleter_, c10::Device(c10::kCUDA, device)};
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
    const auto target = of(device).routes.find(stream);
    if (is_native(device, target)) return adopted(from_native(device, size, [&] { return native_.allocate(size); }));
    void* const taken = take(size, device, stream, target);
    return {taken, taken, deleter_, c10::Device(c10::kCUDA, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return deleter_; }
  void copy_data(void* to, const void* from, size_t size) const override { native_.copy_data(to, from, size); }

  // ---- memory

  void* raw_alloc(size_t size) override {
    if (size == 0) return nullptr;
    return raw_alloc_with_stream(size, c10::cuda::getCurrentCUDAStream(c10::cuda::current_device()).stream());
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    if (size == 0) return nullptr;
    const DeviceIndex device = c10::cuda::current_device();
    const auto target = of(device).routes.find(stream);
    if (is_native(device, target))
      return from_native(device, size, [&] { return native_.raw_alloc_with_stream(size, stream); });
    return take(size, device, stream, target);
  }
  void raw_delete(void* address) override {
    if (address == nullptr) return;
    exchange_.drop(address);
    if (give_back(address)) return;
    native_.raw_delete(address);
    note_outside();
  }
#if TORCH_VERSION_MINOR >= 13
  DataPtr allocateWithAddress(size_t size, void* address) override {
    return adopted(native_.allocateWithAddress(size, address));
  }
#endif
  void recordStream(const DataPtr& data, CUDAStream stream) override {
    if (data.get() == nullptr) return;
    memlake_block_t block{};
    if (data.get_deleter() == deleter_ && memlake_torch_find(data.get(), data.device().index(), &block) == 1) {
      memlake_torch_record_stream(data.get(), stream.stream());
      return;
    }
    if (data.get_deleter() != deleter_) {
      native_.recordStream(data, stream);
      return;
    }
    // The wrapped allocator ignores memory with another deleter than its own.
    DataPtr with_its_deleter(data.get(), data.get(), native_.raw_deleter(), data.device());
    native_.recordStream(with_its_deleter, stream);
    with_its_deleter.release_context();
  }
  void* getBaseAllocation(void* address, size_t* size) override {
    memlake_block_t block{};
    if (memlake_torch_find(address, hint(), &block) != 1) return native_.getBaseAllocation(address, size);
    TORCH_CHECK(block.segment_is_mapped == 0,
                "memlake: this tensor lies in a range of mapped chunks, which is not one "
                "allocation of the driver; policy=\"caching\" has such allocations, and memlake.sharing sends memory "
                "to other processes");
    if (size != nullptr) *size = block.segment_size;
    return reinterpret_cast<void*>(block.segment);
  }

  // ---- the life of the allocator

  void init(int device_count) override {
    if (!native_.initialized()) native_.init(device_count);
    is_initialized_ = true;
  }
  bool initialized() override { return is_initialized_; }
  void enable(bool is_on) override { native_.enable(is_on); }
  bool isEnabled() const override { return native_.isEnabled(); }
  std::string name() override { return "memlake"; }
#if TORCH_VERSION_MINOR >= 8
  void emptyCache(PoolId pool) override {
    if (pool == kDefaultPool) {
      for (const auto& memory : devices_) memory->private_pools.note_held();
      memlake_torch_empty_cache();
    } else {
      for (const auto& memory : devices_) memory->private_pools.empty(pool);
    }
    native_.emptyCache(pool);
    note_outside();
  }
#else
  void emptyCache() override {
    memlake_torch_empty_cache();
    native_.emptyCache();
    note_outside();
  }
#endif
  double getMemoryFraction(DeviceIndex device) override { return of(device).fraction(); }
  void setMemoryFraction(double fraction, DeviceIndex device) override { of(device).set_fraction(fraction); }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    native_.cacheInfo(device, largest);
    *largest = std::max(*largest, of(device).largest_free());
  }
#if TORCH_VERSION_MINOR >= 10
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      DeviceIndex device) override {
    return native_.getExpandableSegmentSizes(device);
  }
#endif

  // ---- statistics and history

  DeviceStats getDeviceStats(DeviceIndex device) override {
    DeviceStats stats = native_.getDeviceStats(device);
    of(device).add_to(stats);
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    native_.resetAccumulatedStats(device);
    of(device).reset_totals();
  }
  void resetPeakStats(DeviceIndex device) override {
    native_.resetPeakStats(device);
    of(device).reset_peaks();
  }
#if TORCH_VERSION_MINOR >= 11
  SnapshotInfo snapshot(PoolId pool, bool with_traces) override {
    SnapshotInfo snapshot = native_.snapshot(pool, with_traces);
    add_to(snapshot, pool, with_traces);
    return snapshot;
  }
#elif TORCH_VERSION_MINOR >= 8
  SnapshotInfo snapshot(PoolId pool) override {
    SnapshotInfo snapshot = native_.snapshot(pool);
    add_to(snapshot, pool, true);
    return snapshot;
  }
#else
  SnapshotInfo snapshot() override {
    SnapshotInfo snapshot = native_.snapshot();
    add_to(snapshot, kDefaultPool, true);
    return snapshot;
  }
#endif
#if TORCH_VERSION_MINOR >= 11
  void recordHistory(bool is_on, CreateContextFn gather, size_t most_entries, RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    if (!is_history_apart_) native_.recordHistory(is_on, gather, most_entries, when, clear, skipped);
    record(is_on, gather, most_entries, when, clear, skipped);
  }
#elif TORCH_VERSION_MINOR >= 8
  void recordHistory(bool is_on, CreateContextFn gather, size_t most_entries, RecordContext when, bool clear) override {
    if (!is_history_apart_) native_.recordHistory(is_on, gather, most_entries, when, clear);
    record(is_on, gather, most_entries, when, clear, {});
  }
#else
  void recordHistory(bool is_on, CreateContextFn gather, size_t most_entries, RecordContext when) override {
    if (!is_history_apart_) native_.recordHistory(is_on, gather, most_entries, when);
    record(is_on, gather, most_entries, when, true, {});
  }
#endif
  /// While it is set, recordHistory() of the calling thread is about memlake's memory only. For a history that
  /// PyTorch's own allocator records since before the installation: its settings cannot be read, and stay.
  static void set_history_apart(bool is_apart) { is_history_apart_ = is_apart; }
  bool isHistoryEnabled() override { return settings_.is_recording(); }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    native_.recordAnnotation(annotation);
  }
#if TORCH_VERSION_MINOR >= 8
  void pushCompileContext(std::string& context) override {
    Labels::compile_contexts().push_back(context);
    native_.pushCompileContext(context);
  }
  void popCompileContext() override {
    if (!Labels::compile_contexts().empty()) Labels::compile_contexts().pop_back();
    native_.popCompileContext();
  }
#endif
#if TORCH_VERSION_MINOR >= 10
  void setUserMetadata(const std::string& metadata) override {
    attachments_.set_metadata(metadata);
    native_.setUserMetadata(metadata);
  }
  std::string getUserMetadata() override { return attachments_.metadata(); }
#endif
#if TORCH_VERSION_MINOR >= 14
  bool supportsUserMetadata() override { return native_.supportsUserMetadata(); }
  void annotateMemory(const void* address, const std::string& metadata) override {
    memlake_block_t block{};
    const auto pool = find_with_pool(address, hint(), &block);
    if (!pool) return native_.annotateMemory(address, metadata);
    of(static_cast<DeviceIndex>(block.device))
        .history.note(TraceEntry::ANNOTATE, block.address, block.requested, static_cast<cudaStream_t>(block.stream),
                      *pool, settings_.gather(RecordContext::ALLOC), metadata);
  }
#endif
#if TORCH_VERSION_MINOR >= 12
  Context getContextForPointer(const void* address) override {
    memlake_block_t block{};
    if (memlake_torch_find(address, hint(), &block) != 1) return native_.getContextForPointer(address);
    return of(static_cast<DeviceIndex>(block.device)).history.stack_of(address);
  }
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override {
    native_.attachOomRejectionObserver(std::move(observer));
  }
#endif
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    native_.attachOutOfMemoryObserver(std::move(observer));  // calls it for memlake's failures, too
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    settings_.add_tracker(tracker);
    for (const auto& memory : devices_) memory->watch();
    native_.attachAllocatorTraceTracker(std::move(tracker));
  }

  // ---- private pools

  void beginAllocateToPool(DeviceIndex device, PoolId pool, std::function<bool(cudaStream_t)> filter) override {
    DeviceMemory& memory = of(device);
    Target target{pool};
    const auto shared = std::make_shared<const Routes::Filter>(std::move(filter));
    if (!is_served(device) || !native_.isEnabled() || memory.private_pools.is_native(pool)) {
      native_.beginAllocateToPool(device, pool, [shared](cudaStream_t stream) { return (*shared)(stream); });
    } else {
      memlake_pool* const for_new = memory.pool();  // made before the capture begins
      native_.beginAllocateToPool(device, pool, memory.native_filter(pool, shared));
      try {
        target.memory = memory.private_pools.use(pool, for_new);
      } catch (...) {
        native_.endAllocateToPool(device, pool);
        native_.releasePool(device, pool);
        throw;
      }
    }
    memory.routes.add(target, shared);
  }
  void endAllocateToPool(DeviceIndex device, PoolId pool) override {
    of(device).routes.remove(pool);
    native_.endAllocateToPool(device, pool);
  }
#if TORCH_VERSION_MINOR >= 13
  void markCaptureBegin(DeviceIndex device) override { native_.markCaptureBegin(device); }
  void markCaptureEnd(DeviceIndex device) override { native_.markCaptureEnd(device); }
#endif
  void releasePool(DeviceIndex device, PoolId pool) override {
    native_.releasePool(device, pool);
    of(device).private_pools.settle();
    of(device).note_outside();
  }
  int getPoolUseCount(DeviceIndex device, PoolId pool) override { return native_.getPoolUseCount(device, pool); }
#if TORCH_VERSION_MINOR >= 11
  void createOrIncrefPool(DeviceIndex device, PoolId pool, std::shared_ptr<CUDAAllocator> allocator) override {
    note_made(device, pool, allocator != nullptr);
    native_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, PoolId pool, bool is_on) override {
    native_.setUseOnOOM(device, pool, is_on);
    of(device).private_pools.set_used_on_oom(pool, is_on);
  }
#elif TORCH_VERSION_MINOR >= 8
  void createOrIncrefPool(DeviceIndex device, PoolId pool, CUDAAllocator* allocator) override {
    note_made(device, pool, allocator != nullptr);
    native_.createOrIncrefPool(device, pool, allocator);
  }
  void setUseOnOOM(DeviceIndex device, PoolId pool) override {
    native_.setUseOnOOM(device, pool);
    of(device).private_pools.set_used_on_oom(pool, true);
  }
#else
  // A MemPool's own allocator is not told here, so every MemPool has PyTorch's memory; graphs do not come this way.
  void ensureExistsAndIncrefPool(DeviceIndex device, PoolId pool) override {
    note_made(device, pool, true);
    native_.ensureExistsAndIncrefPool(device, pool);
  }
#endif
#if TORCH_VERSION_MINOR >= 10
  void setNoSplit(DeviceIndex device, PoolId pool) override {
    of(device).private_pools.make_native(pool);
    native_.setNoSplit(device, pool);
  }
#endif
  bool checkPoolLiveAllocations(DeviceIndex device, PoolId pool, const std::unordered_set<void*>& expected) override {
    if (memlake_pool* const memory = of(device).private_pools.memory_of(pool))
      return are_live({pool, memory}, expected);
    return native_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, PoolId pool) override {
    if (memlake_pool* const memory = of(device).private_pools.memory_of(pool))
      return std::make_shared<PoolState>(device, Target{pool, memory});
    return native_.getCheckpointState(device, pool);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) override {
    if (const auto* const own = dynamic_cast<const PoolState*>(state.get())) return restored(device, *own);
    CheckpointDelta delta = native_.setCheckpointPoolState(device, std::move(state));
    for (DataPtr& data : delta.dataptrs_allocd) data = adopted(std::move(data));
    of(device).note_outside();
    return delta;
  }

  // ---- other devices and processes

  void enablePeerAccess(DeviceIndex device, DeviceIndex accessed) override {
    native_.enablePeerAccess(device, accessed);
    of(accessed).add_peer(device);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream,
                          bool has_peer_access) override {
    if (has_peer_access || to_device == from_device)
      return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);  // the other one refuses mapped memory
  }
  ShareableHandle shareIpcHandle(void* address) override {
    memlake_block_t block{};
    if (memlake_torch_find(address, hint(), &block) != 1) return native_.shareIpcHandle(address);
    return exchange_.sent(address, block.device);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    if (!Exchange::is_of_memlake(handle)) return native_.getIpcDevPtr(std::move(handle));
    return exchange_.received(handle, c10::cuda::current_device());
  }

 private:
  DeviceMemory& of(DeviceIndex device) const { return *devices_[static_cast<size_t>(device)]; }

  bool is_served(DeviceIndex device) const { return (served_.load(std::memory_order_relaxed) >> device & 1) != 0; }

  bool is_native(DeviceIndex device, const std::optional<Target>& target) {
    return !is_served(device) || (target && target->memory == nullptr) || !native_.isEnabled();
  }

  void* take(size_t size, DeviceIndex device, cudaStream_t stream, const std::optional<Target>& target) {
    last_device_ = device;
    return of(device).take(size, stream, target);
  }

  void note_made(DeviceIndex device, PoolId pool, bool is_native) {
    PrivatePools& pools = of(device).private_pools;
    if (is_served(device) && pools.native_uses(pool) == 0) pools.note_made(pool, is_native);
  }

  /// Frees all blocks of the private pool, and allocates the blocks of the earlier state again. If that is not
  /// possible, it throws, and the private pool has what it had.
  CheckpointDelta restored(DeviceIndex device, const PoolState& state) {
    TORCH_CHECK(device == state.device, "memlake: the state is of a private pool on device ",
                static_cast<int>(state.device), ", not on device ", static_cast<int>(device));
    CheckpointDelta delta;
    for (const memlake_block_t& block : of(device).restore(state.target, state.live)) {
      delta.ptrs_freed.push_back(reinterpret_cast<void*>(block.address));
      exchange_.drop(delta.ptrs_freed.back());
    }
    for (const memlake_block_t& block : state.live)
      delta.dataptrs_allocd.emplace_back(reinterpret_cast<void*>(block.address), reinterpret_cast<void*>(block.address),
                                         deleter_, c10::Device(c10::kCUDA, device));
    return delta;
  }

  /// The device of the calling thread's last request: where to look for an address first.
  static int hint() { return last_device_; }

  /// False if the memory is not memlake's.
  bool give_back(void* address) {
    memlake_block_t block{};
    if (!settings_.is_wanted()) [[likely]] {
      if (memlake_torch_release(address, hint(), &block) != 1) return false;
      if (block.size != 0) of(static_cast<DeviceIndex>(block.device)).note_freed(address, block.requested);
      return true;
    }
    const auto pool = find_with_pool(address, hint(), &block);
    if (!pool) return memlake_torch_release(address, hint(), &block) == 1;
    DeviceMemory& memory = of(static_cast<DeviceIndex>(block.device));
    Context stack = settings_.gather(RecordContext::ALL);
    {
      const std::lock_guard lock(memory.history.order);
      memory.note_free_request(block, *pool, std::move(stack));
      memlake_torch_release(address, block.device, &block);
    }
    memory.note_freed(address, block.requested);
    return true;
  }

  /// Gives memory of the wrapped allocator the common deleter, unless it has a special one.
  DataPtr adopted(DataPtr data) const {
    if (data.get_deleter() != native_.raw_deleter()) return data;
    const c10::Device device = data.device();
    void* const address = data.release_context();
    return {address, address, deleter_, device};
  }

  /// A request of the wrapped allocator.
  template <class Request>
  std::invoke_result_t<Request> from_native(DeviceIndex device, size_t size, Request request) {
    const NativeRequest under_way(of(device), size);
    of(device).apply_fraction();
    auto data = request();
    of(device).note_outside();
    return data;
  }

  /// For operations of which the device is not known.
  void note_outside() const {
    for (const auto& memory : devices_) memory->note_outside();
  }

  void record(bool is_on, CreateContextFn gather, size_t most_entries, RecordContext when, bool clear,
              const std::vector<std::string>& skipped) {
    settings_.set(is_on, gather, most_entries, when, skipped);
    for (const auto& memory : devices_) {
      memory->watch();
      if (!is_on || clear) memory->history.clear();
    }
  }

  /// `pool`: only segments of this private pool; kDefaultPool: all.
  void add_to(SnapshotInfo& snapshot, PoolId pool, bool with_traces) {
    // So that a reader of the snapshot knows which allocator it shows. The text is PyTorch's "key:value,key:value".
    std::string& settings = snapshot.config_metadata.last_allocator_settings;
    settings += (settings.empty() ? "memlake:" : ",memlake:") + attachments_.configuration();
    const auto to_unix_time = clock_.makeConverter();
    for (size_t device = 0; device < kMostDevices; ++device) {
      const DeviceMemory& memory = *devices_[device];
      for (SegmentInfo& segment : memory.segments(pool)) snapshot.segments.push_back(std::move(segment));
      if (!with_traces) continue;
      std::vector<TraceEntry> entries = memory.history.entries();
      if (entries.empty()) continue;
      for (TraceEntry& entry : entries) entry.time_.t_ = to_unix_time(entry.time_.approx_t_) / 1000;
      if (snapshot.device_traces.size() <= device) snapshot.device_traces.resize(device + 1);
      merge_by_time(snapshot.device_traces[device], std::move(entries), settings_.most_entries());
    }
  }

  static inline thread_local DeviceIndex last_device_ = 0;
  static inline thread_local bool is_history_apart_ = false;

  CUDAAllocator& native_;
  const c10::DeleterFnPtr deleter_;
  c10::ApproximateClockToUnixTimeConverter clock_;  // made early: it is the more exact the older it is
  HistorySettings settings_;
  Attachments attachments_;
  Exchange exchange_;
  std::unique_ptr<DeviceMemory> devices_[kMostDevices];
  std::atomic<uint64_t> served_{0};
  std::atomic<bool> is_initialized_{false};
};

}  // namespace memlake_torch
