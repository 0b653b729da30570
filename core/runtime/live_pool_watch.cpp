// The part of LivePool for programs that watch it: PyTorch's statistics, its blocks, and events.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "runtime/live_pool.hpp"

namespace memlake {
namespace {

std::uint64_t successes(const CountingDriver& driver, std::initializer_list<Call> calls) {
  std::uint64_t sum = 0;
  for (const Call call : calls) sum += driver.count(call) - driver.failures(call);
  return sum;
}

}  // namespace

void LivePool::count_by_size() {
  const auto lock = open_lock();
  pool_->count_by_size();
}

LiveCounts LivePool::numbers() const {
  const PoolStats stats = pool_->stats();
  LiveCounts numbers;
  numbers.retries = stats.retries;
  numbers.ooms = stats.ooms;
  numbers.device_allocations =
      successes(counting_, {Call::cuMemCreate, Call::cuMemAlloc, Call::cuMemAllocFromPoolAsync});
  numbers.device_frees = successes(counting_, {Call::cuMemRelease, Call::cuMemFree, Call::cuMemFreeAsync});
  numbers.host_waits = events_.host_waits();
  return numbers;
}

LiveCounts LivePool::counts() {
  const auto lock = open_lock();
  const SizeCounts* sizes = pool_->size_counts();
  if (sizes == nullptr)
    throw Error(ErrorKind::config, "the pool does not count by size; call memlake_pool_count_by_size() first");
  LiveCounts counts = numbers();
  counts.sizes = *sizes;
  counts.retries -= before_reset_.retries;
  counts.ooms -= before_reset_.ooms;
  counts.device_allocations -= before_reset_.device_allocations;
  counts.device_frees -= before_reset_.device_frees;
  counts.host_waits -= before_reset_.host_waits;
  counts.largest_free = pool_->largest_free();
  return counts;
}

void LivePool::count_outside(const SizeLevels& outside) {
  const auto lock = open_lock();
  SizeCounts* const sizes = pool_->size_counts_at_once();
  if (sizes == nullptr)
    throw Error(ErrorKind::config, "the pool does not count by size; call memlake_pool_count_by_size() first");
  sizes->set_outside(outside);
}

void LivePool::reset_totals() {
  const auto lock = open_lock();
  before_reset_ = numbers();
  stats_before_reset_ = pool_->stats();
  if (SizeCounts* sizes = pool_->size_counts()) sizes->reset_totals();
}

PoolStats LivePool::stats_since_reset(Bytes& limit) const {
  const auto lock = open_lock();
  limit = pool_->limit();
  PoolStats stats = pool_->stats();
#define LEVEL(name)
#define COUNT(name) stats.name -= stats_before_reset_.name;
#include "pool/statistics.inc"
#undef LEVEL
#undef COUNT
  return stats;
}

std::vector<FoundBlock> LivePool::blocks() const {
  std::vector<FoundBlock> blocks;
  {
    const auto lock = open_lock();
    for (const auto& space : pool_->spaces())
      space->for_each([&](const Block& block) {
        const bool has_memory = block.state == BlockState::live || block.state == BlockState::pending ||
                                block.state == BlockState::free || block.state == BlockState::claimed;
        if (has_memory) blocks.push_back(found(*space, block));
      });
  }
  std::ranges::sort(blocks, {}, [](const FoundBlock& block) { return block.range.begin; });
  return blocks;
}

void LivePool::observe(std::function<void(const LiveEvent&)> tell) {
  const auto lock = open_lock();
  if (!tell) return pool_->observe({});
  pool_->observe([this, tell = std::move(tell)](const MemoryEvent& event) {
    tell({event.kind, event.range, streams_.handle_of(event.stream), event.graph_pool});
  });
}

std::vector<std::shared_ptr<Device>> LivePool::peers() const {
  std::vector<std::shared_ptr<Device>> peers;
  if (!can_undo()) return peers;
  const std::lock_guard lock(mutex_);
  if (!pool_) return peers;
  // The devices as the library knows them, without this pool's counting.
  for (const auto& peer : pool_->policy_space().peers()) peers.push_back(peer->library().device(peer->ordinal()));
  return peers;
}

void LivePool::add_peer(const std::shared_ptr<Device>& peer) {
  require_usable();
  const std::lock_guard changing(changing_peers_);
  std::vector<std::shared_ptr<Device>> all = peers();
  const auto is_it = [&](const std::shared_ptr<Device>& device) { return device->ordinal() == peer->ordinal(); };
  if (std::ranges::any_of(given_, is_it) || std::ranges::any_of(all, is_it)) return;
  for (const auto& own : given_)
    if (!peer->can_access(*own))
      throw Error(ErrorKind::invalid_argument, "device " + std::to_string(peer->ordinal()) +
                                                   " cannot reach memory of device " + std::to_string(own->ordinal()));
  all.push_back(peer);
  change_peers(all);
}

void LivePool::remove_peer(const Device& peer) {
  require_usable();
  const std::lock_guard changing(changing_peers_);
  std::vector<std::shared_ptr<Device>> others = peers();
  const auto is_it = [&](const std::shared_ptr<Device>& device) {
    return device->ordinal() == peer.ordinal() && &device->library() == &peer.library();
  };
  if (std::erase_if(others, is_it) > 0) change_peers(others);
}

}  // namespace memlake
