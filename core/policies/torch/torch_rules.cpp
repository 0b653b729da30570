#include "policies/torch/torch_rules.hpp"

#include <algorithm>
#include <utility>

#include "policies/torch/graph_rules.hpp"
#include "policies/torch/torch_sizes.hpp"

namespace memlake {

namespace {

// Cheapest first. Memory that the wait frees is not searched for a fit, only given back: torch issue 189504, kept as it
// is.
constexpr Rung kLadder[] = {Rung::collect_garbage, Rung::grow,           Rung::release_oversize,
                            Rung::wait_for_events, Rung::release_cached, Rung::grow};

bool is_unlimited(Bytes size) { return size == TorchOptions::kUnlimited; }

/// What a free block could grow to: itself and the addresses without memory right behind it.
Bytes expandable_size(const Block& block) {
  const bool can_grow = block.next != nullptr && block.next->state == BlockState::unmapped;
  return can_grow ? block.size + block.next->size : block.size;
}

bool has_room(const Block* block, Bytes size) {
  Bytes room{0};
  for (; room < size && is_allocatable(block); block = block->next) room = room + block->size;
  return room >= size;
}

/// The lowest place of the stream's expandable segments where `size` bytes fit, mapped or not.
Block* find_place(const BlockGroup& group, StreamId stream, Bytes size) {
  for (auto at = group.unmapped.lower_bound({stream, 0}); at != group.unmapped.end() && at->first.first == stream;
       ++at) {
    Block* block = at->second;
    if (block->previous != nullptr && block->previous->state == BlockState::free) block = block->previous;
    if (has_room(block, size)) return block;
  }
  return nullptr;
}

template <class Visit>
void for_each_free(const BlockGroup& group, Visit&& visit) {
  for (const auto& index : group.free)
    for (Block* block = index == nullptr ? nullptr : index->first(); block != nullptr; block = index->after(block))
      visit(block);
}

}  // namespace

Bytes TorchRules::round(Bytes requested) const { return torch::round_request(requested, options_); }

bool TorchRules::is_small(Bytes rounded) const { return torch::is_small(rounded); }

Block* TorchRules::find(Bytes rounded, StreamId stream, BlockGroup& group) const {
  const FreeIndex* index = group.index_of(stream);
  Block* block = index == nullptr ? nullptr : index->best_fit(rounded);
  if (block == nullptr) return nullptr;
  if (block->memory->is_expandable()) {
    // A block that can grow counts as large as it could become, so that the tail of a segment is taken last.
    for (Block* next = index->after(block);
         block->memory->is_expandable() && next != nullptr && expandable_size(*next) < expandable_size(*block);
         next = index->after(block))
      block = next;
  }
  if (is_unlimited(options_.max_split_size)) return block;
  if (rounded < options_.max_split_size) return block->size >= options_.max_split_size ? nullptr : block;
  return block->size >= rounded + options_.max_non_split_rounding ? nullptr : block;
}

bool TorchRules::splits(const Block& block, Bytes rounded) const {
  const Bytes rest = block.size - rounded;
  if (block.group->is_small || options_.is_expandable) return rest >= torch::kMinBlock;
  return rounded < options_.max_split_size && rest > torch::kLargestSmall;
}

std::unique_ptr<SegmentRules> TorchRules::for_graphs(std::shared_ptr<const GraphPool> graph_pool) const {
  return std::make_unique<GraphRules>(options_, std::move(graph_pool));
}

Ladder TorchRules::ladder() const { return kLadder; }

Step TorchRules::next(Climb& climb, const SegmentView& view) const {
  constexpr Step kNextRung{.kind = Step::Kind::next_rung};
  constexpr Step kRelease{.kind = Step::Kind::release};
  const bool is_first = climb.steps == 0;
  switch (climb.rung) {
    case Rung::collect_garbage:
      return is_first && choose_garbage(view, climb.victims) ? kRelease : kNextRung;
    case Rung::release_oversize:
      if (is_first) {
        climb.is_enough = choose_available(climb, climb.victims);
        if (!climb.victims.empty()) return kRelease;
      }
      if (!climb.is_enough || climb.attempt.has_failed) return kNextRung;
      return grow(climb, view).value_or(kNextRung);
    case Rung::release_cached:
      if (!is_first) return kNextRung;
      climb.attempt.is_retry = true;
      choose_everything(view.blocks, climb.victims);
      return kRelease;
    default:
      return climb.attempt.has_failed ? kNextRung : grow(climb, view).value_or(kNextRung);
  }
}

std::optional<Step> TorchRules::grow(const Climb& climb, const SegmentView& view) const {
  const bool is_beginning = climb.block == nullptr;
  const Bytes segment = torch::segment_size(climb.attempt.rounded, options_);
  // The limit is compared with a whole segment, also where only pages are added.
  if (is_beginning && view.limit < TorchOptions::kUnlimited && view.held + segment > view.limit) return std::nullopt;
  if (options_.is_expandable) return grow_expandable(climb, view);
  if (is_beginning) return Step{.kind = Step::Kind::new_segment, .size = segment};
  return Step{.kind = Step::Kind::take, .block = climb.block};
}

Step TorchRules::grow_expandable(const Climb& climb, const SegmentView& view) const {
  const Bytes size = climb.attempt.rounded;
  Block* block = climb.block;
  if (block == nullptr) block = find_place(climb.group, climb.attempt.request.stream, size);
  if (block == nullptr) {
    // Addresses for 9/8 of the device, in whole pages: some may have to be left unmapped in the middle.
    const Bytes page = climb.group.is_small ? torch::kSmallSegment : options_.large_segment_size;
    const std::uint64_t wanted = view.device_total.count + view.device_total.count / 8;
    const std::uint64_t pages = (wanted + page.count - 1) / page.count;
    return {.kind = Step::Kind::new_expandable, .size = page * pages, .page = page};
  }
  if (block->state == BlockState::unmapped)
    return {.kind = Step::Kind::map, .block = block, .size = std::min(block->size, size)};
  if (block->size < size)
    return {.kind = Step::Kind::map, .block = block->next, .size = std::min(block->next->size, size - block->size)};
  return {.kind = Step::Kind::take, .block = block};
}

bool TorchRules::choose_garbage(const SegmentView& view, std::vector<Block*>& victims) const {
  victims.clear();
  if (options_.garbage_collection_threshold <= 0 || view.limit == TorchOptions::kUnlimited) return false;
  const Bytes threshold{
      static_cast<std::uint64_t>(options_.garbage_collection_threshold * static_cast<double>(view.limit.count))};
  if (view.held <= threshold) return false;
  const Bytes target = view.held - threshold;
  const BlockGroup& group = view.blocks.large;
  const auto age = [&](const Block* block) { return group.searches - block->idle_since; };
  std::vector<Block*> candidates;
  std::uint64_t total_age = 0;
  for_each_free(group, [&](Block* block) {
    if (!block->is_whole_segment()) return;
    candidates.push_back(block);
    total_age += age(block);
  });
  auto count = static_cast<std::int64_t>(candidates.size());
  Bytes reclaimed{0};
  for (bool has_chosen = true; has_chosen && reclaimed < target && count > 0;) {
    has_chosen = false;
    const double mean = static_cast<double>(total_age) / static_cast<double>(count);
    for (Block*& block : candidates) {
      if (block == nullptr || block->memory->is_expandable() || static_cast<double>(age(block)) < mean) continue;
      has_chosen = true;
      reclaimed = reclaimed + block->size;
      total_age -= age(block);
      --count;
      victims.push_back(std::exchange(block, nullptr));
    }
  }
  return !victims.empty();
}

std::vector<const Block*> TorchRules::garbage(const BlockMap& blocks) const {
  std::vector<const Block*> candidates;
  for_each_free(blocks.large, [&](const Block* block) {
    if (block->is_whole_segment() && !block->memory->is_expandable()) candidates.push_back(block);
  });
  std::ranges::stable_sort(candidates, {}, &Block::idle_since);
  return candidates;
}

bool TorchRules::choose_available(const Climb& climb, std::vector<Block*>& victims) const {
  victims.clear();
  const FreeIndex* index = climb.group.index_of(climb.attempt.request.stream);
  if (is_unlimited(options_.max_split_size) || index == nullptr) return false;
  const Bytes key = std::max(climb.attempt.rounded, options_.max_split_size);
  if (Block* block = index->best_fit(key); block != nullptr && !block->memory->is_expandable()) {
    victims.push_back(block);
    return true;
  }
  Bytes released{0};
  for (Block* block = index->last_below(key);
       block != nullptr && released < key && block->size >= options_.max_split_size; block = index->before(block)) {
    if (block->memory->is_expandable()) continue;
    released = released + block->size;
    victims.push_back(block);
  }
  return released >= key;  // if not, they are released all the same, but growing is not tried
}

void TorchRules::choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const {
  victims.clear();
  for (const BlockGroup* group : {&blocks.large, &blocks.small})
    for_each_free(*group, [&](Block* block) {
      if (block->memory->is_expandable() || block->is_whole_segment()) victims.push_back(block);
    });
}

}  // namespace memlake
