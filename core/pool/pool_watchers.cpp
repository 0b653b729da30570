#include "pool/pool_watchers.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace memlake {

PoolWatch& PoolWatchers::watch() {
  if (watch_ == nullptr) {
    watch_ = std::make_unique<PoolWatch>();
    spaces_.set_observer(watch_.get());
  }
  return *watch_;
}

void PoolWatchers::end_watch_if_unused() {
  if (watch_ == nullptr || watch_->counts != nullptr || watch_->tell) return;
  spaces_.set_observer(nullptr);
  watch_.reset();
}

void PoolWatchers::observe(std::function<void(const MemoryEvent&)> tell) {
  watch().tell = std::move(tell);
  end_watch_if_unused();
}

void PoolWatchers::count_by_size() {
  if (watch_ != nullptr && watch_->counts != nullptr) return;
  auto counts = std::make_unique<SizeCounts>();
  spaces_.for_each([&](const Block& block) {
    const bool is_small = SizeCounts::is_small(block.requested);
    if (block.state == BlockState::live) {
      counts->allocations.add(1, is_small);
      counts->allocated_bytes.add(block.size.count, is_small);
    }
    if (block.state == BlockState::live || block.state == BlockState::pending) {
      counts->active.add(1, is_small);
      counts->active_bytes.add(block.size.count, is_small);
      counts->requested_bytes.add(block.requested.count, is_small);
    }
  });
  for (const auto& space : spaces_) {
    const SmallPart small = space->small_part();
    counts->held_bytes.add(small.held.count, true);
    counts->held_bytes.add((space->ledger().held() - small.held).count, false);
    counts->segments.add(small.segments, true);
    counts->segments.add(space->segment_count() - small.segments, false);
  }
  counts->reset_totals();
  watch().counts = std::move(counts);
  count_splits();
  watch_->counts->inactive_splits.reset_totals();
  watch_->counts->inactive_split_bytes.reset_totals();
}

SizeCounts* PoolWatchers::size_counts() {
  if (watch_ == nullptr || watch_->counts == nullptr) return nullptr;
  SizeCounts& counts = *watch_->counts;
  count_splits();
  // What the driver counts is known when it is asked.
  for (const auto& space : spaces_) {
    if (space->facets().driver_counts == nullptr) continue;
    const Level& held = spaces_.held();
    counts.held_bytes.set(0, held.now.count);
    for (const std::size_t place : {std::size_t{0}, std::size_t{2}}) {
      Count& count = counts.held_bytes.of[place];
      count.peak = std::max(count.peak, static_cast<std::int64_t>(held.peak.count));
    }
    counts.segments.set(0, spaces_.segment_count());
  }
  return &counts;
}

void PoolWatchers::count_splits() {
  if (watch_->counts == nullptr) return;
  std::unordered_set<const SegmentMemory*> used;
  spaces_.for_each([&](const Block& block) {
    if (block.state == BlockState::live || block.state == BlockState::pending) used.insert(block.memory);
  });
  std::array<std::uint64_t, 2> number{};
  std::array<std::uint64_t, 2> bytes{};
  spaces_.for_each([&](const Block& block) {
    const bool is_free = block.state == BlockState::free || block.state == BlockState::claimed;
    if (!is_free || !used.contains(block.memory)) return;
    ++number[block.group->is_small ? 0 : 1];
    bytes[block.group->is_small ? 0 : 1] += block.size.count;
  });
  watch_->counts->inactive_splits.set(number[0], number[1]);
  watch_->counts->inactive_split_bytes.set(bytes[0], bytes[1]);
}

}  // namespace memlake
