#include "pool/pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "pool/live_digest.hpp"

namespace memlake {

Pool::Pool(std::shared_ptr<Device> device, std::unique_ptr<Policy> policy, EventSource& events, Bytes limit)
    : device_(std::move(device)),
      policy_(std::move(policy)),
      events_(events),
      limit_(limit),
      device_total_(device_->total_memory()) {}

Pool::~Pool() = default;

PoolView Pool::view() const {
  return {.blocks = blocks_, .held = stats_.held.now, .device_total = device_total_, .limit = limit_};
}

Block* Pool::allocate(Bytes requested, StreamId stream) {
  if (awaited_count_ > 0) poll_events();
  const std::size_t row = log_ == nullptr ? 0 : log_->size();
  note(RowLog::Op::allocate, stats_.allocations, requested, stream);
  const Bytes rounded = policy_->round(requested);
  if (reusable_here_ > 0)
    if (Block* block = take_over(requested, rounded, stream)) return block;
  BlockGroup& group = policy_->is_small(rounded) ? blocks_.small : blocks_.large;
  ++group.searches;
  Block* block = policy_->find(rounded, stream, group);
  if (block != nullptr) [[likely]]
    return hand_out(block, requested, rounded, stream);

  Attempt attempt{.request = {requested, stream}, .rounded = rounded, .group = &group};
  block = climb(attempt);
  stats_.retries += attempt.is_retry ? 1 : 0;
  if (block == nullptr) {
    ++stats_.ooms;
    failure_ = describe(attempt);
    if (log_ != nullptr) log_->has_failed(row);
    return nullptr;
  }
  block = hand_out(block, requested, rounded, stream);
  count_held_peak();
  return block;
}

Block* Pool::allocate_cached(Bytes requested, StreamId stream) {
  if (awaited_count_ > 0) return nullptr;
  const Bytes rounded = policy_->round(requested);
  BlockGroup& group = policy_->is_small(rounded) ? blocks_.small : blocks_.large;
  Block* block = policy_->find(rounded, stream, group);
  if (block == nullptr) return nullptr;
  ++group.searches;
  note(RowLog::Op::allocate, stats_.allocations, requested, stream);
  return hand_out(block, requested, rounded, stream);
}

Block* Pool::climb(Attempt& attempt) {
  while (true) {
    const Step step = policy_->next(attempt, view());
    if (step.kind == Step::Kind::take) return step.block;
    if (step.kind == Step::Kind::fail) return nullptr;
    run(step, attempt);
    attempt.tried.push_back({step.kind, attempt.has_failed});
  }
}

Block* Pool::hand_out(Block* block, Bytes requested, Bytes rounded, StreamId user) {
  blocks_.unindex(block);
  if (policy_->splits(*block, rounded)) {
    Block* front = blocks_.cut_front(block, rounded);
    blocks_.index(block);
    block = front;
  }
  block->state = BlockState::live;
  block->requested = requested;
  block->user = user;
  block->id = stats_.allocations++;
  live_digest_ ^= live_digest(*block);
  stats_.requested.add(requested);
  stats_.allocated.add(block->size);
  stats_.active.add(block->size);
  return block;
}

/// A block that was freed in the order of this stream, although its segment belongs to another, and that fits as it is.
Block* Pool::take_over(Bytes requested, Bytes rounded, StreamId stream) {
  if (stream >= awaited_.size()) return nullptr;
  const bool is_small = policy_->is_small(rounded);
  auto& queue = awaited_[stream];
  for (auto at = queue.begin(); at != queue.end(); ++at) {
    Block* block = at->block;
    const bool fits = block->group->is_small == is_small && block->size >= rounded && !policy_->splits(*block, rounded);
    if (!at->is_reusable_here || block->awaited != 1 || !fits) continue;
    events_.drop(at->ticket);
    queue.erase(at);
    --awaited_count_;
    --reusable_here_;
    live_digest_ ^= live_digest(*block);
    stats_.requested.subtract(block->requested);
    block->awaited = 0;
    block->state = BlockState::live;
    block->requested = requested;
    block->user = stream;
    block->id = stats_.allocations++;
    live_digest_ ^= live_digest(*block);
    stats_.requested.add(requested);
    stats_.allocated.add(block->size);
    return block;
  }
  return nullptr;
}

bool Pool::frees_at_once(const Block& block, StreamId stream) const {
  return block.users.empty() && stream == block.stream && policy_->keeps_freed_memory();
}

void Pool::free(Block* block, StreamId stream) {
  const bool is_elsewhere = stream != block->stream;
  if (block->users.empty() && !is_elsewhere) [[likely]] {
    note(RowLog::Op::free, block->id, {0}, stream);
    stats_.allocated.subtract(block->size);
    ++stats_.frees;
    make_free(block);
    return;
  }
  // Recording may fail; then the block is still live, and what was recorded is dropped.
  std::vector<Awaited> recorded;
  std::vector<StreamId> streams(block->users);
  std::erase(streams, stream);
  const bool has_others = !streams.empty();
  if (is_elsewhere) streams.push_back(stream);
  recorded.reserve(streams.size());
  try {
    for (const StreamId user : streams)
      recorded.push_back({events_.record(user, *block), block, user == stream && !has_others});
  } catch (...) {
    for (const Awaited& awaited : recorded) events_.drop(awaited.ticket);
    throw;
  }
  note(stream == block->user ? RowLog::Op::free : RowLog::Op::free_on, block->id, {0}, stream);
  stats_.allocated.subtract(block->size);
  ++stats_.frees;
  block->users.clear();
  block->state = BlockState::pending;
  block->awaited = static_cast<std::uint32_t>(recorded.size());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (awaited_.size() <= streams[i]) awaited_.resize(streams[i] + 1);
    awaited_[streams[i]].push_back(recorded[i]);
    ++awaited_count_;
    reusable_here_ += recorded[i].is_reusable_here ? 1U : 0U;
  }
  if (streams.empty()) make_free(block);
}

void Pool::make_free(Block* block) {
  live_digest_ ^= live_digest(*block);
  stats_.requested.subtract(block->requested);
  stats_.active.subtract(block->size);
  block->state = BlockState::free;
  blocks_.merge(block);
  blocks_.index(block);
  if (!policy_->keeps_freed_memory()) release_segment(block);
}

void Pool::record_use(Block* block, StreamId stream) {
  if (stream == block->user || std::ranges::find(block->users, stream) != block->users.end()) return;
  block->users.push_back(stream);
  note(RowLog::Op::record_stream, block->id, {0}, stream);
}

void Pool::settle(const Awaited& awaited) {
  --awaited_count_;
  reusable_here_ -= awaited.is_reusable_here ? 1U : 0U;
  if (--awaited.block->awaited > 0) return;
  note(RowLog::Op::event_done, awaited.block->id, {0}, 0);
  make_free(awaited.block);
}

void Pool::poll_events() {
  for (auto& queue : awaited_)
    while (!queue.empty() && events_.is_done(queue.front().ticket)) {
      const Awaited done = queue.front();
      queue.pop_front();
      settle(done);
    }
}

void Pool::wait_for_events() {
  for (auto& queue : awaited_)
    while (!queue.empty()) {
      events_.wait(queue.front().ticket);
      const Awaited done = queue.front();
      queue.pop_front();
      settle(done);
    }
}

bool Pool::preallocate(Bytes size, StreamId stream) {
  if (awaited_count_ > 0) poll_events();
  note(RowLog::Op::preallocate, 0, size, stream);
  const Bytes rounded = policy_->round(size);
  BlockGroup& group = policy_->is_small(rounded) ? blocks_.small : blocks_.large;
  if (policy_->find(rounded, stream, group) != nullptr) return true;
  Attempt attempt{.request = {size, stream}, .rounded = rounded, .group = &group};
  const bool is_there = climb(attempt) != nullptr;
  stats_.retries += attempt.is_retry ? 1 : 0;
  if (!is_there) failure_ = describe(attempt);
  count_held_peak();
  return is_there;
}

void Pool::trim(Bytes keep) {
  if (awaited_count_ > 0) poll_events();
  note(RowLog::Op::trim, 0, keep, 0);
  std::vector<Block*> victims;
  policy_->choose_everything(blocks_, victims);
  for (Block* block : victims) {
    if (stats_.held.now <= keep) return;
    const Bytes most = stats_.held.now - keep;
    if (block->memory->is_expandable()) {
      unmap(block, most);
    } else if (block->size <= most) {
      release_segment(block);
    }
  }
}

void Pool::release_bare_addresses() {
  std::vector<Block*> bare;
  for (const BlockGroup* group : {&blocks_.small, &blocks_.large})
    for (const auto& [place, block] : group->unmapped)
      if (block->is_whole_segment()) bare.push_back(block);
  for (Block* block : bare) release_segment(block);
}

void Pool::release_cached() {
  wait_for_events();
  note(RowLog::Op::empty_cache, 0, {0}, 0);
  std::vector<Block*> victims;
  policy_->choose_everything(blocks_, victims);
  release(victims);
}

void Pool::count_held_peak() {
  // At the first moment of a new peak, with the request counted that made it.
  if (stats_.held.peak > held_peak_seen_) {
    held_peak_seen_ = stats_.held.peak;
    stats_.allocated_at_held_peak = stats_.allocated.now;
  }
}

Bytes Pool::largest_free() const {
  Bytes largest{0};
  for (const BlockGroup* group : {&blocks_.small, &blocks_.large})
    for (const auto& index : group->free)
      if (index != nullptr && !index->is_empty()) largest = std::max(largest, index->last()->size);
  return largest;
}

std::vector<std::pair<StreamId, Bytes>> Pool::pending_on() const {
  std::vector<std::pair<StreamId, Bytes>> pending;
  for (std::size_t stream = 0; stream < awaited_.size(); ++stream) {
    Bytes bytes{0};
    for (const Awaited& awaited : awaited_[stream]) bytes = bytes + awaited.block->size;
    if (bytes.count > 0) pending.emplace_back(static_cast<StreamId>(stream), bytes);
  }
  return pending;
}

Failure Pool::describe(const Attempt& attempt) const {
  Bytes usable{0};
  if (const FreeIndex* index = attempt.group->index_of(attempt.request.stream))
    for (const Block* block = index->first(); block != nullptr; block = index->after(block))
      usable = usable + block->size;
  return {.request = attempt.request,
          .rounded = attempt.rounded,
          .limit = limit_,
          .device_total = device_total_,
          .held = stats_.held.now,
          .live = stats_.allocated.now,
          .pending = stats_.active.now - stats_.allocated.now,
          .free = stats_.held.now - stats_.active.now,
          .free_for_it = usable,
          .largest_free = largest_free(),
          .pending_on = pending_on(),
          .tried = attempt.tried};
}

void Pool::write_to(RowLog* log) {
  log_ = log;
  if (log == nullptr) return;
  std::vector<const Block*> live;
  blocks_.for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  for (const Block* block : live) {
    log->add(RowLog::Op::allocate, block->id, block->requested, block->user);
    for (const StreamId user : block->users) log->add(RowLog::Op::record_stream, block->id, {0}, user);
  }
}

}  // namespace memlake
