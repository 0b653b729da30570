#include "runtime/live_pool.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/undo_failure.hpp"
#include "driver/library.hpp"
#include "driver/relaxed_capture.hpp"
#include "driver/result.hpp"
#include "runtime/published_figures.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

std::vector<std::shared_ptr<Device>> counted(const std::vector<std::shared_ptr<Device>>& devices, Driver& driver,
                                             const std::shared_ptr<Leftovers>& leftovers) {
  std::vector<std::shared_ptr<Device>> same;
  for (const auto& device : devices) {
    same.push_back(std::make_shared<Device>(device, driver));
    same.back()->keep_leftovers(leftovers);
    // Before any memory is made: its properties and its granule depend on the answer.
    static_cast<void>(has_feature(same.back(), Feature::rdma));
  }
  return same;
}

/// The library's counting driver, if the device's calls pass it; null if they pass a driver of the caller's.
CountingDriver* counting_of(Device& device) {
  CountingDriver& counting = device.library().counting();
  return &device.driver() == &counting ? &counting : nullptr;
}

/// The driver below that, so that a call is counted in one wrapper.
Driver& uncounted(Device& device) {
  return counting_of(device) == nullptr ? device.driver() : device.library().failing();
}

}  // namespace

std::shared_ptr<LivePool> LivePool::make(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space,
                                         const Limits& limits, const Sharing& sharing) {
  const RelaxedCapture relaxed(&devices.front()->library().unwrapped());
  std::shared_ptr<LivePool> pool(new LivePool(std::move(devices), make_space, limits, sharing));
  publication_changed();
  return pool;
}

LivePool::LivePool(std::vector<std::shared_ptr<Device>> devices, const SpaceMaker& make_space, const Limits& limits,
                   const Sharing& sharing)
    : given_(std::move(devices)),
      sharing_(sharing),
      counting_(uncounted(*given_.front()), counting_of(*given_.front())),
      devices_(counted(given_, counting_, leftovers_)),
      events_(devices_, streams_),
      pool_(std::in_place, make_space(devices_, events_, std::make_shared<Budget>(limits.most(), devices_.size())),
            events_),
      location_(pool_->policy_space().location()),
      limits_(limits) {
  for (const auto& device : devices_) device->context();
  pool_->policy_space().set_unlocker(unlocker_);
  pool_->set_leftovers(leftovers_);
  if (sharing_.is_default_space) add_shareable_space();
  neighbour_.emplace(location_ == Location::device ? given_ : Devices{}, pool_->budget(),
                     pool_->policy_space().policy_name());
  counting_.reset();
}

void LivePool::PoolUnlocker::unlock() noexcept {
  ++entered_;
  pool_.events_.end_grant();
  pool_.mutex_.unlock();
}

void LivePool::PoolUnlocker::lock_again() noexcept {
  pool_.mutex_.lock();
  ++left_;
  has_left_.notify_all();
}

void LivePool::PoolUnlocker::wait_for_others() noexcept {
  const std::uint64_t until = entered_;
  has_left_.wait(pool_.mutex_, [&] { return left_ >= until; });
}

void LivePool::PoolUnlocker::wait_for_all() noexcept {
  has_left_.wait(pool_.mutex_, [&] { return left_ == entered_; });
}

LivePool::~LivePool() {
  // Unmapping does not wait for the device, so the pool does.
  const bool has_memory = pool_ && can_undo() && !is_exiting() && pool_->held().now.count > 0;
  if (has_memory) {
    try {
      synchronize();
    } catch (const Error& error) {
      report_undo_failure(error);
    }
  }
  end_memory();
}

void LivePool::end_memory() {
  // A process that ends makes no driver call.
  const RelaxedCapture relaxed(can_undo() && !is_exiting() ? events_.driver() : nullptr);
  pool_.reset();
  end_leftovers();
}

void LivePool::end_leftovers() {
  if (!is_exiting() && devices_.front()->is_of_this_process()) leftovers_->end();
}

bool LivePool::can_undo() const noexcept {
  return std::ranges::all_of(devices_, [](const auto& device) { return device->can_undo(); });
}

void LivePool::synchronize() {
  const RelaxedCapture relaxed(events_.driver());
  for (const auto& device : devices_) device->synchronize();
}

void LivePool::require_usable() const {
  devices_.front()->library().require_this_process();
  for (const auto& device : devices_)
    if (!device->is_open()) throw Error(ErrorKind::closed, "the pool's device is closed");
}

void LivePool::require_open_locked() const {
  if (!pool_) throw Error(ErrorKind::closed, "the pool is closed");
}

std::unique_lock<Lock> LivePool::open_lock() const {
  require_usable();
  std::unique_lock lock(mutex_);
  require_open_locked();
  return lock;
}

bool LivePool::is_capturing(const StreamName& stream) const {
  if (!is_created(stream.handle) && stream.handle != kPerThreadStream) return false;
  require_usable();
  return stream_is_capturing(*given_.front(), stream.handle);
}

bool LivePool::is_default_stream(StreamId stream) const {
  require_usable();
  const std::lock_guard lock(mutex_);
  return streams_.is_alive(stream) && streams_.handle_of(stream) == nullptr;
}

Shortage LivePool::shortage_locked() {
  for (const auto& space : pool_->spaces())
    if (BareAddresses* bare = space->facets().bare_addresses) bare->release_bare_addresses();
  Shortage shortage = pool_->shortage(pool_->policy_space().free_outside());
  shortage.limits = limits_;
  shortage.other_pools = neighbour_->held_by_others();
  Bytes sum{0};
  for (const auto& [policy, held] : shortage.other_pools) sum = sum + held;
  // Another pool may have grown since the driver was asked.
  shortage.held_by_other_pools = std::min(sum, shortage.held_elsewhere());
  for (Shortage::Waiting& waiting : shortage.pending_on) waiting.handle = streams_.handle_of(waiting.stream);
  return shortage;
}

bool LivePool::free_at_once(Block* block, StreamId stream, const std::atomic<std::uint32_t>& pins) {
  // Where nothing is left to undo, nothing is left to wait for either.
  if (!can_undo()) return pins.load() == 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || pins.load() > 0 || !pool_ || !pool_->frees_at_once(*block, stream)) return false;
  pool_->free(block, stream);
  streams_.touch(stream, events_.now());
  return true;
}

void LivePool::free_locked(Block* block, StreamId stream) {
  if (!can_undo() || !pool_) return;
  pool_->free(block, stream);
  streams_.touch(stream, events_.now());
}

void LivePool::free_dropped_locked(Block* block, StreamId stream) {
  if (!can_undo() || !pool_) return;
  pool_->free_finally(block, stream, false);
  streams_.touch(stream, events_.now());
}

void LivePool::free_dropped(Block* block, StreamId stream) {
  with_lock([&] { free_dropped_locked(block, stream); });
}

void LivePool::record_use(const Lease& lease, Block* block, const StreamName& stream) {
  const auto lock = open_lock();
  lease.require_open();
  // The driver is asked now: found out when the buffer is freed, a handle without a stream would be too late.
  pool_->record_use(block, number_of(stream));
}

StreamName LivePool::name_of(KnownStream stream) const {
  require_usable();
  const std::lock_guard lock(mutex_);
  if (!streams_.is_current(stream)) throw Error(ErrorKind::closed, "the stream of the buffer is closed");
  if (streams_.is_of_other_thread(stream.number))
    throw Error(
        ErrorKind::invalid_argument,
        "the buffer was allocated for the per-thread default stream of another thread, which has no name in this "
        "thread; name a stream");
  return {.handle = streams_.handle_of(stream.number), .device = streams_.device_of(stream.number)};
}

Bytes LivePool::trim(Bytes keep) {
  const auto lock = open_lock();
  const auto all = [this] { return pool_->held().now + pool_->unreleased() + pool_->spilled().now; };
  const Bytes before = all();
  pool_->trim(keep);
  events_.shrink();
  return before - all();
}

void LivePool::close() {
  devices_.front()->library().require_this_process();
  const std::lock_guard lock(mutex_);
  unlocker_.wait_for_all();
  if (!pool_) throw Error(ErrorKind::invalid_free, "the pool is closed already");
  if (can_undo()) {
    if (const PoolStats stats = pool_->stats(); stats.allocated.now.count > 0)
      throw Error(ErrorKind::invalid_free, "the pool still has " + std::to_string(stats.allocations - stats.frees) +
                                               " live buffers of " + std::to_string(stats.requested.now.count) +
                                               " bytes in all; close them first");
    if (!routes_.empty())
      throw Error(ErrorKind::invalid_free, "requests still go to the graph pool " + routes_.front().id.text() +
                                               " of the pool; leave its block first");
    synchronize();  // unmapping does not wait for the device
  }
  routes_.clear();
  end_memory();
  neighbour_.reset();
}

std::size_t LivePool::stream_count() const {
  const auto lock = open_lock();
  return streams_.size();
}

bool LivePool::is_open() const {
  if (!can_undo()) return false;
  const std::lock_guard lock(mutex_);
  return pool_.has_value();
}

void LivePool::set_limit(Bytes limit) {
  const auto lock = open_lock();
  limits_.limit = limit;
  pool_->set_limit(limits_.most());
}

void LivePool::set_memory_fraction(Bytes fraction) {
  const auto lock = open_lock();
  limits_.memory_fraction = fraction;
  pool_->set_limit(limits_.most());
}

Limits LivePool::limits() const {
  return with_lock([this] { return limits_; });
}

void LivePool::reset_peaks() {
  const auto lock = open_lock();
  pool_->reset_peaks();
}

void LivePool::reset_held_peak() {
  const auto lock = open_lock();
  pool_->reset_held_peak();
}

void LivePool::reset_active_peak() {
  const auto lock = open_lock();
  pool_->reset_active_peak();
}

Bytes LivePool::take_recent_peak() {
  const auto lock = open_lock();
  return pool_->take_recent_peak();
}

std::optional<ReuseRules> LivePool::reuse_rules() const {
  const auto lock = open_lock();
  const StreamReuse* reuse = pool_->policy_space().facets().reuse;
  return reuse == nullptr ? std::nullopt : std::optional(reuse->reuse_rules());
}

void LivePool::set_reuse_rules(const ReuseRules& rules) {
  const auto lock = open_lock();
  pool_->set_reuse_rules(rules);
}

void LivePool::set_release_threshold(Bytes threshold) {
  const auto lock = open_lock();
  if (DriverCounts* counts = pool_->policy_space().facets().driver_counts) counts->set_release_threshold(threshold);
  release_threshold_ = threshold;
}

Bytes LivePool::release_threshold() const {
  return with_lock([this] { return release_threshold_; });
}

void LivePool::set_peers(const std::vector<std::shared_ptr<Device>>& peers) {
  require_usable();
  const std::lock_guard changing(changing_peers_);
  change_peers(peers);
}

void LivePool::change_peers(const std::vector<std::shared_ptr<Device>>& peers) {
  // Access may be taken away only from memory that no work uses, on whichever device the work is. The wait is without
  // the lock: other threads may allocate meanwhile.
  auto removed = this->peers();
  std::erase_if(removed, [&](const auto& peer) {
    return !peer->is_open() ||
           std::ranges::any_of(peers, [&](const auto& kept) { return kept->ordinal() == peer->ordinal(); });
  });
  if (!removed.empty()) synchronize();
  for (const auto& peer : removed) peer->synchronize();
  const auto lock = open_lock();
  unlocker_.wait_for_all();  // what is being mapped would miss the change
  require_open_locked();
  const RelaxedCapture relaxed(events_.driver());
  for (const auto& peer : peers) peer->context();
  pool_->set_peers(counted(peers, counting_, leftovers_));
}

bool LivePool::has_risen_to(Bytes mark) {
  if (!can_undo()) return false;
  const std::lock_guard lock(mutex_);
  return pool_ && pool_->has_risen_to(mark);
}

Bytes LivePool::held() const {
  if (!can_undo()) return {0};
  const std::lock_guard lock(mutex_);
  return pool_ ? pool_->held().now + pool_->unreleased() : Bytes{0};
}

std::optional<std::string> LivePool::find_broken_invariant() const {
  const auto lock = open_lock();
  return pool_->find_broken_invariant();
}

void LivePool::start_recording() {
  const auto lock = open_lock();
  unlocker_.wait_for_all();  // a request that is being served has no row, and would get a free
  require_open_locked();
  if (log_ != nullptr) throw Error(ErrorKind::config, "the pool is recording already; stop that recording first");
  log_ = std::make_unique<RowLog>();
  pool_->write_to(log_.get());
}

RowLog LivePool::stop_recording() {
  devices_.front()->library().require_this_process();
  const std::lock_guard lock(mutex_);
  if (log_ == nullptr) throw Error(ErrorKind::config, "the pool is not recording");
  if (pool_) pool_->write_to(nullptr);
  return std::move(*std::exchange(log_, nullptr));
}

LiveStats LivePool::stats() const {
  const auto lock = open_lock();
  LiveStats stats = totals_now();
  stats.largest_free = pool_->largest_free();
  stats.segment_count = pool_->segment_count();
  if (pool_->policy_space().location() == Location::device)
    for (const auto& held : pool_->budget()->held_on) stats.held_on.push_back({held.load(std::memory_order_relaxed)});
  for (std::size_t i = 0; i < call_names.size(); ++i)
    if (const auto count = counting_.count(static_cast<Call>(i))) stats.calls.emplace_back(call_names[i], count);
  add_blocks_to(stats);
  return stats;
}

LiveStats LivePool::totals() const {
  const auto lock = open_lock();
  return totals_now();
}

std::vector<LiveStats::OfStream> LivePool::by_stream() const {
  LiveStats stats;
  const auto lock = open_lock();
  add_blocks_to(stats);
  return std::move(stats.streams);
}

LiveStats LivePool::totals_now() const {
  LiveStats stats;
  stats.pool = pool_->stats();
  stats.limit = pool_->limit();
  stats.live_count = stats.pool.allocations - stats.pool.frees;
  if (const PolicyCounters* counters = pool_->policy_space().facets().counters)
    stats.policy_counters = counters->counters();
  stats.host_waits = events_.host_waits();
  stats.modelled_us = counting_.modelled_us();
  return stats;
}

void LivePool::add_blocks_to(LiveStats& stats) const {
  std::map<StreamId, LiveStats::OfStream> streams;
  pool_->for_each([&](const Block& block) {
    // What a caller has belongs to the stream that it is for; free memory to the one that gets it at once.
    const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
    if (!is_used && block.state != BlockState::free && block.state != BlockState::claimed) return;
    LiveStats::OfStream& of = streams[is_used ? block.user : block.stream];
    switch (block.state) {
      case BlockState::live:
        of.live = of.live + block.size;
        break;
      case BlockState::pending:
        of.pending = of.pending + block.size;
        ++stats.pending_count;
        break;
      default:
        of.free = of.free + block.size;
        break;
    }
  });
  for (auto& [number, of] : streams) {
    of.stream = streams_.handle_of(number);
    if (of.live.count + of.pending.count + of.free.count > 0) stats.streams.push_back(of);
  }
}

std::vector<std::pair<std::size_t, Bytes>> LivePool::pieces_of(const Space& space, const Block& block, Bytes size) {
  std::vector<std::pair<std::size_t, Bytes>> pieces;
  Bytes left = size;
  const auto add = [&](std::size_t device, Bytes bytes) {
    bytes = std::min(bytes, left);
    left = left - bytes;
    if (bytes.count == 0) return;
    if (!pieces.empty() && pieces.back().first == device) {
      pieces.back().second = pieces.back().second + bytes;
    } else {
      pieces.emplace_back(device, bytes);
    }
  };
  if (const SeveralPlaces* places = space.facets().several_places) {
    places->for_each_piece(block, add);
  } else {
    add(space.device_number(), block.size);
  }
  return pieces;
}

Snapshot LivePool::snapshot() const {
  Snapshot snapshot;
  {
    const auto lock = open_lock();
    const auto add = [&](const Space& space, const Block& block) {
      const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
      const GraphPoolId graph_pool = space.graph_pool() == nullptr ? GraphPoolId{} : space.graph_pool()->id;
      const bool has_memory = is_used || block.state == BlockState::free || block.state == BlockState::claimed;
      std::vector<std::pair<std::size_t, Bytes>> pieces;
      if (has_memory) pieces = pieces_of(space, block, block.size);
      std::uint64_t on_host = 0;
      if (space.location() == Location::device)
        for (const auto& [device, size] : pieces) on_host += device == devices_.size() ? size.count : 0;
      snapshot.blocks.push_back(
          {.segment = block.memory->range.begin.value,
           .segment_size = block.memory->range.size.count,
           .page = block.memory->page.count,
           .address = block.address.value,
           .size = block.size.count,
           .requested = is_used ? block.requested.count : 0,
           .stream = reinterpret_cast<std::uint64_t>(streams_.handle_of(is_used ? block.user : block.stream)),
           .state = static_cast<std::uint64_t>(block.state),
           .is_small = block.group->is_small ? 1u : 0u,
           .id = is_used ? block.id : 0,
           .on_host = on_host,
           .graph_pool_first = graph_pool.first,
           .graph_pool_second = graph_pool.second,
           .first_piece = pieces.empty() ? 0 : snapshot.pieces.size(),
           .piece_count = pieces.size()});
      for (const auto& [device, size] : pieces) snapshot.pieces.push_back({device, size.count});
    };
    for (const auto& space : pool_->spaces()) {
      space->for_each([&](const Block& block) { add(*space, block); });
      if (const UseOrder* order = space->facets().use_order)
        for (const UseOrder::Idle& idle : order->least_recently_used())
          snapshot.idle.push_back({idle.range.begin.value, idle.range.size.count,
                                   reinterpret_cast<std::uint64_t>(streams_.handle_of(idle.stream))});
    }
  }
  std::ranges::sort(snapshot.blocks, {}, &BlockRecord::address);
  return snapshot;
}

}  // namespace memlake
