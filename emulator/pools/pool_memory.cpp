#include "pools/pool_memory.hpp"

#include <algorithm>
#include <iterator>

#include "basics/refusal.hpp"
#include "basics/rounding.hpp"

namespace memlake::emulator {

PoolMemory::~PoolMemory() {
  for (const auto& [address, segment] : segments_) hide(address, segment);
}

void PoolMemory::hide(std::uint64_t address, const Segment& segment) {
  if (segment.is_shown) arena_.hide(address, segment.size, 1);
  arena_.addresses().give_back(address, segment.size);
  supply_.give_back(segment.size);
}

std::uint64_t PoolMemory::room() const {
  if (most_ == 0) return supply_.free();
  const std::uint64_t most = round_up(most_, kPoolGranule);
  return std::min(supply_.free(), most > held_ ? most - held_ : 0);
}

void PoolMemory::refuse_size(std::uint64_t size) const {
  const std::string limit = most_ != 0 ? text(" (its maxSize is ", most_, ")") : "";
  refuse(CUDA_ERROR_OUT_OF_MEMORY, "the pool holds ", held_, " bytes", limit, " with no free piece of ", size,
         " bytes that this stream may have, and ", supply_.name(), " has ", supply_.free(), " bytes left");
}

std::optional<Reuse> PoolMemory::rule_for(const Block& block, const Stream& stream, const Clock& before,
                                          const ReuseSwitches& switches) {
  Reuse needed = block.was_used ? Reuse::synchronized : Reuse::fresh;
  for (const PendingFree& free : block.after) {
    Reuse rule{};
    if (free.stream == stream.handle) {
      rule = Reuse::same_stream;
    } else if (switches.follow_event_dependencies != 0 && before.covers(free.stream, free.position)) {
      rule = Reuse::event_dependency;
    } else if (switches.allow_opportunistic != 0 && free.completion->is_done) {
      rule = Reuse::opportunistic;
    } else {
      return std::nullopt;
    }
    needed = std::max(needed, rule);
  }
  return needed;
}

template <class Allows>
PoolMemory::Blocks::iterator PoolMemory::find_block(std::uint64_t size, Allows&& allows) {
  for (auto at = free_.lower_bound({size, 0}); at != free_.end(); ++at)
    if (const auto block = blocks_.find(at->second); allows(block->second)) return block;
  return blocks_.end();
}

template <class Allows>
PoolMemory::Blocks::iterator PoolMemory::find_neighbours(std::uint64_t size, Allows&& allows) {
  auto first = blocks_.end();
  std::uint64_t together = 0;
  for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
    if (at->second.is_live || !allows(at->second)) {
      first = blocks_.end();
      continue;
    }
    if (first == blocks_.end() || first->second.segment != at->second.segment) {
      first = at;
      together = 0;
    }
    together += at->second.size;
    if (together < size || first == at) continue;
    for (auto next = std::next(first); first->second.size < together; next = std::next(first)) {
      forget_free(first);
      forget_free(next);
      first->second.size += next->second.size;
      first->second.was_used = first->second.was_used || next->second.was_used;
      std::ranges::move(next->second.after, std::back_inserter(first->second.after));
      blocks_.erase(next);
      note_free(first);
    }
    return first;
  }
  return blocks_.end();
}

std::optional<PoolMemory::Taken> PoolMemory::take_free(std::uint64_t size, const Stream& stream, const Clock& before,
                                                       const ReuseSwitches& switches) {
  if (most_ != 0 && (size > most_ || used_ > most_ - size)) refuse_size(size);
  const auto allows = [&](const Block& block) { return rule_for(block, stream, before, switches).has_value(); };
  auto found = find_block(size, allows);
  if (found == blocks_.end()) found = find_neighbours(size, allows);
  if (found == blocks_.end()) return std::nullopt;
  return take_block(found, size, *rule_for(found->second, stream, before, switches));
}

std::optional<PoolMemory::Taken> PoolMemory::take_with_waits(std::uint64_t size, const Stream& stream,
                                                             const Clock& before, const ReuseSwitches& switches) {
  if (switches.allow_internal_dependencies == 0) return std::nullopt;
  const auto allows = [](const Block&) { return true; };
  auto found = find_block(size, allows);
  if (found == blocks_.end()) found = find_neighbours(size, allows);
  if (found == blocks_.end()) return std::nullopt;
  std::vector<CompletionRef> waits;
  for (const PendingFree& free : found->second.after)
    if (free.stream != stream.handle && is_pending(free.completion) && !before.covers(free.stream, free.position))
      waits.push_back(free.completion);
  Taken taken = take_block(found, size, Reuse::internal_dependency);
  taken.waits = std::move(waits);
  return taken;
}

PoolMemory::Taken PoolMemory::take_block(Blocks::iterator block, std::uint64_t size, Reuse rule) {
  forget_free(block);
  Block& taken = block->second;
  if (taken.size > size) {
    Block rest = taken;
    rest.size -= size;
    note_free(blocks_.emplace_hint(std::next(block), block->first + size, std::move(rest)));
    taken.size = size;
  }
  taken.is_live = true;
  taken.was_used = true;
  std::vector<PendingFree> after = std::move(taken.after);
  taken.after.clear();
  used_ += size;
  used_high_ = std::max(used_high_, used_);
  ++reuses_[static_cast<std::size_t>(rule)];
  return {.block = block->first, .size = size, .rule = rule, .after = std::move(after)};
}

void PoolMemory::put_back(Taken taken) {
  --reuses_[static_cast<std::size_t>(taken.rule)];
  const auto block = blocks_.find(taken.block);
  used_ -= taken.size;
  block->second.is_live = false;
  block->second.after = std::move(taken.after);
  join(block);
}

std::uint64_t PoolMemory::segment_for(std::uint64_t size) {
  const std::uint64_t needed = round_up(size, kPoolGranule);
  const std::uint64_t usual = std::max(needed, supply_.segment());
  if (usual <= room()) return usual;
  if (needed <= room()) return needed;
  // The request fits into no idle segment, so the pool releases idle segments to make room for a new one.
  std::uint64_t idle = 0;
  for (const std::uint64_t segment : idle_) idle += segments_.at(segment).size;
  if (needed > room() + idle) return 0;
  for (const std::uint64_t segment : std::vector(idle_.begin(), idle_.end()))
    if (needed > room()) release(segment);
  return needed <= room() ? needed : 0;
}

PoolMemory::Taken PoolMemory::take_new(std::uint64_t size, std::uint64_t bytes, std::shared_ptr<HeapFile> file,
                                       bool is_shown) {
  const auto address = arena_.addresses().take(bytes, kPoolGranule);
  if (!address) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there is no free address range of ", bytes, " bytes");
  Segment segment{.size = bytes, .storage = {}, .is_shown = false};
  try {
    if (file != nullptr) segment.storage = Storage(std::move(file), bytes, kPoolGranule);
    if (segment.storage.has_bytes() && is_shown) {
      arena_.check_room_to_show(*address, bytes);
      arena_.show(*address, bytes, segment.storage.fd(), segment.storage.offset());
      segment.is_shown = true;
      Arena::protect(*address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      if (supply_.is_poisoned()) segment.storage.poison(bytes);
    }
  } catch (...) {
    if (segment.is_shown) arena_.hide(*address, bytes, 1);
    arena_.addresses().give_back(*address, bytes);
    throw;
  }
  segments_.emplace(*address, std::move(segment));
  supply_.take(bytes);
  held_ += bytes;
  held_high_ = std::max(held_high_, held_);
  const auto block =
      blocks_.emplace(*address, Block{.size = bytes, .segment = *address, .is_live = false, .was_used = false}).first;
  note_free(block);
  return take_block(block, size, Reuse::fresh);
}

void PoolMemory::note_free(Blocks::iterator block) {
  const auto& [address, noted] = *block;
  free_.emplace(noted.size, address);
  if (!noted.after.empty()) {
    behind_frees_.insert(address);
  } else if (noted.size == segments_.at(noted.segment).size) {
    idle_.insert(noted.segment);
  }
}

void PoolMemory::forget_free(Blocks::iterator block) {
  free_.erase({block->second.size, block->first});
  behind_frees_.erase(block->first);
  idle_.erase(block->second.segment);
}

bool PoolMemory::can_join(const Block& one, const Block& other) {
  if (one.is_live || other.is_live || one.segment != other.segment || one.after.size() != other.after.size())
    return false;
  return one.after.empty() || (one.after.size() == 1 && one.after.front().stream == other.after.front().stream);
}

PoolMemory::Blocks::iterator PoolMemory::join(Blocks::iterator block) {
  const auto absorb = [&](Blocks::iterator first, Blocks::iterator second) {
    forget_free(first);
    forget_free(second);
    Block& kept = first->second;
    Block& gone = second->second;
    // Of two frees in one stream the later one stands for both.
    if (!kept.after.empty() && kept.after.front().position < gone.after.front().position)
      kept.after = std::move(gone.after);
    kept.was_used = kept.was_used || gone.was_used;
    kept.size += gone.size;
    blocks_.erase(second);
    return first;
  };
  forget_free(block);
  if (const auto next = std::next(block); next != blocks_.end() && can_join(block->second, next->second))
    block = absorb(block, next);
  if (block != blocks_.begin() && can_join(std::prev(block)->second, block->second))
    block = absorb(std::prev(block), block);
  note_free(block);
  return block;
}

void PoolMemory::give_back(std::uint64_t address, const std::optional<PendingFree>& after) {
  const auto block = blocks_.find(address);
  used_ -= block->second.size;
  block->second.is_live = false;
  if (after) block->second.after = {*after};
  join(block);
}

bool PoolMemory::release(std::uint64_t address) {
  const auto found = segments_.find(address);
  // Work that is not ordered before the free may still use it, where that is allowed (inflight_unmap).
  if (in_flight_.user_of(address, found->second.size) != nullptr) return false;
  forget_free(blocks_.find(address));
  blocks_.erase(address);
  held_ -= found->second.size;
  hide(address, found->second);
  segments_.erase(found);
  return true;
}

void PoolMemory::release_above(std::uint64_t threshold) {
  if (held_ <= threshold) return;
  const std::vector<std::uint64_t> idle(idle_.rbegin(), idle_.rend());
  for (const std::uint64_t segment : idle)
    if (held_ > threshold) release(segment);
}

void PoolMemory::trim(std::uint64_t keep) {
  std::vector<std::uint64_t> idle(idle_.begin(), idle_.end());
  // Large ones first: that comes closest to what is to be kept.
  std::ranges::stable_sort(idle, std::greater{}, [&](std::uint64_t address) { return segments_.at(address).size; });
  for (const std::uint64_t segment : idle)
    if (held_ - segments_.at(segment).size >= keep) release(segment);
}

bool PoolMemory::is_idle() const {
  return std::ranges::all_of(behind_frees_, [&](std::uint64_t address) {
    return std::ranges::all_of(blocks_.at(address).after,
                               [](const PendingFree& free) { return free.completion->is_done; });
  });
}

std::uint64_t PoolMemory::offset_in_file(std::uint64_t address) const {
  const auto& [start, segment] = *std::prev(segments_.upper_bound(address));
  return segment.storage.offset() + (address - start);
}

bool PoolMemory::is_in_use() const {
  return std::ranges::any_of(segments_, [&](const auto& entry) {
    return in_flight_.user_of(entry.first, entry.second.size, true) != nullptr;
  });
}

}  // namespace memlake::emulator
