#include "runtime/live_figures.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "runtime/block_pieces.hpp"

namespace memlake {

LiveStats LiveFigures::stats() const {
  const auto lock = locked_.open_lock();
  LiveStats stats = totals_now();
  stats.largest_free = locked_.pool().spaces().largest_free();
  stats.segment_count = locked_.pool().spaces().segment_count();
  if (locked_.pool().spaces().policy().devices().location() == Location::device)
    for (const auto& held : locked_.pool().spaces().budget()->held_on)
      stats.held_on.push_back({held.load(std::memory_order_relaxed)});
  for (std::size_t i = 0; i < call_names.size(); ++i)
    if (const auto count = locked_.counting().count(static_cast<Call>(i)))
      stats.calls.emplace_back(call_names[i], count);
  add_blocks_to(stats);
  return stats;
}

LiveStats LiveFigures::totals() const {
  const auto lock = locked_.open_lock();
  return totals_now();
}

std::vector<LiveStats::OfStream> LiveFigures::by_stream() const {
  LiveStats stats;
  const auto lock = locked_.open_lock();
  add_blocks_to(stats);
  return std::move(stats.streams);
}

LiveStats LiveFigures::totals_now() const {
  LiveStats stats;
  stats.pool = locked_.pool().figures().stats();
  stats.limit = locked_.pool().spaces().budget()->limit;
  stats.live_count = stats.pool.allocations - stats.pool.frees;
  if (const PolicyCounters* counters = locked_.pool().spaces().policy().facets().counters)
    stats.policy_counters = counters->counters();
  stats.host_waits = locked_.streams().waits.count();
  stats.modelled_us = locked_.counting().modelled_us();
  return stats;
}

void LiveFigures::add_blocks_to(LiveStats& stats) const {
  std::map<StreamId, LiveStats::OfStream> streams;
  locked_.pool().spaces().for_each([&](const Block& block) {
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
    of.stream = locked_.streams().table.handle_of(number);
    if (of.live.count + of.pending.count + of.free.count > 0) stats.streams.push_back(of);
  }
}

Snapshot LiveFigures::snapshot() const {
  Snapshot snapshot;
  {
    const auto lock = locked_.open_lock();
    const auto add = [&](const Space& space, const Block& block) {
      const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
      const GraphPoolId graph_pool = space.graph_pool() == nullptr ? GraphPoolId{} : space.graph_pool()->id;
      const bool has_memory = is_used || block.state == BlockState::free || block.state == BlockState::claimed;
      std::vector<std::pair<std::size_t, Bytes>> pieces;
      if (has_memory) pieces = pieces_of(space, block, block.size);
      std::uint64_t on_host = 0;
      if (space.devices().location() == Location::device)
        for (const auto& [device, size] : pieces) on_host += device == locked_.devices().size() ? size.count : 0;
      snapshot.blocks.push_back({.segment = block.memory->range.begin.value,
                                 .segment_size = block.memory->range.size.count,
                                 .page = block.memory->page.count,
                                 .address = block.address.value,
                                 .size = block.size.count,
                                 .requested = is_used ? block.requested.count : 0,
                                 .stream = reinterpret_cast<std::uint64_t>(
                                     locked_.streams().table.handle_of(is_used ? block.user : block.stream)),
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
    for (const auto& space : locked_.pool().spaces()) {
      space->for_each([&](const Block& block) { add(*space, block); });
      if (const UseOrder* order = space->facets().use_order)
        for (const UseOrder::Idle& idle : order->least_recently_used())
          snapshot.idle.push_back({idle.range.begin.value, idle.range.size.count,
                                   reinterpret_cast<std::uint64_t>(locked_.streams().table.handle_of(idle.stream))});
    }
  }
  std::ranges::sort(snapshot.blocks, {}, &BlockRecord::address);
  return snapshot;
}

std::vector<FoundBlock> LiveFigures::blocks() const {
  std::vector<FoundBlock> blocks;
  {
    const auto lock = locked_.open_lock();
    for (const auto& space : locked_.pool().spaces())
      space->for_each([&](const Block& block) {
        const bool has_memory = block.state == BlockState::live || block.state == BlockState::pending ||
                                block.state == BlockState::free || block.state == BlockState::claimed;
        if (has_memory) blocks.push_back(found_block(locked_.streams().table, *space, block));
      });
  }
  std::ranges::sort(blocks, {}, [](const FoundBlock& block) { return block.range.begin; });
  return blocks;
}

bool LiveFigures::has_risen_to(Bytes mark) {
  const auto lock = locked_.lock_if_open();
  return lock && locked_.pool().spaces().has_risen_to(mark);
}

Bytes LiveFigures::held() const {
  const auto lock = locked_.lock_if_open();
  return lock ? locked_.pool().spaces().held().now + locked_.pool().spaces().budget()->unreleased : Bytes{0};
}

void LiveFigures::reset_peaks() {
  const auto lock = locked_.open_lock();
  if (SizeCounts* counts = locked_.pool().watchers().size_counts()) counts->reset_peaks();
  locked_.pool().figures().reset_peaks();
}

void LiveFigures::reset_held_peak() {
  const auto lock = locked_.open_lock();
  locked_.pool().figures().reset_held_peak();
}

void LiveFigures::reset_active_peak() {
  const auto lock = locked_.open_lock();
  locked_.pool().figures().reset_active_peak();
}

Bytes LiveFigures::take_recent_peak() {
  const auto lock = locked_.open_lock();
  return locked_.pool().figures().take_recent_peak();
}

}  // namespace memlake
