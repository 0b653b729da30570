#include "pool/pool.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "blocks/live_digest.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {

namespace {

// Of the pending blocks of a stream only the oldest are looked at, so that a long queue does not slow every request.
constexpr std::size_t kMostLookedAt = 64;

}  // namespace

Pool::Pool(std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy, EventSource& events, Bytes limit)
    : Pool(std::make_unique<SegmentSpace>(std::move(device), std::move(policy), events, limit), events) {}

Pool::~Pool() = default;

PoolStats Pool::stats() const {
  PoolStats stats = stats_;
  stats.held = space_->held();
  stats.active.peak = std::max(stats.active.peak, active_peak_before_);
  stats.held_on_host = space_->held_on_host();
  return stats;
}

void Pool::reset_peaks() {
  for (Level* level : {&stats_.requested, &stats_.allocated}) level->peak = level->now;
  reset_active_peak();
  reset_held_peak();
}

void Pool::reset_active_peak() {
  space_->reset_used_peak();
  stats_.active.peak = stats_.active.now;
  active_peak_before_ = {0};
}

Bytes Pool::take_recent_peak() {
  const Bytes recent = stats_.active.peak;
  active_peak_before_ = std::max(active_peak_before_, recent);
  stats_.active.peak = stats_.active.now;
  return recent;
}

void Pool::reset_held_peak() {
  space_->reset_held_peak();
  stats_.allocated_at_held_peak = stats_.allocated.now;
  held_peak_seen_ = space_->held().now;
}

void Pool::add_whole(std::unique_ptr<ShareableSpace> whole, bool is_default_space) {
  whole->set_reuse_rules(space_->reuse_rules().value_or(ReuseRules{false, false, false}));
  whole->set_peers(space_->peers());
  whole_ = std::move(whole);
  if (is_default_space) usual_ = whole_.get();
}

void Pool::set_reuse_rules(const ReuseRules& rules) {
  space_->set_reuse_rules(rules);
  if (whole_ != nullptr) whole_->set_reuse_rules(rules);
}

void Pool::set_peers(const std::vector<std::shared_ptr<Device>>& peers) {
  const auto before = space_->peers();
  space_->set_peers(peers);
  if (whole_ == nullptr) return;
  try {
    whole_->set_peers(peers);
  } catch (...) {
    space_->set_peers(before);
    throw;
  }
}

void Pool::for_each(const std::function<void(const Block&)>& visit) const {
  space_->for_each(visit);
  if (whole_ != nullptr) whole_->for_each(visit);
}

std::size_t Pool::segment_count() const {
  return space_->segment_count() + (whole_ == nullptr ? 0 : whole_->segment_count());
}

Bytes Pool::largest_free() const {
  return whole_ == nullptr ? space_->largest_free() : std::max(space_->largest_free(), whole_->largest_free());
}

Block* Pool::allocate_from(Space& space, Bytes requested, StreamId stream) {
  if (awaited_count_ > 0) poll_events();
  if (awaited_count_ > 0 && space.is_crowded()) settle_behind_waits();
  // Before the search: meanwhile other threads may make requests.
  const std::uint64_t id = next_id_++;
  note(RowLog::Op::allocate, id, requested, stream);
  const Bytes rounded = space.round(requested);
  if (reusable_here_ > 0)
    if (Block* block = take_over(space, rounded, stream)) return hand_out(block, requested, stream, id);
  if (Block* block = space.take(rounded, stream)) [[likely]]
    return hand_out(block, requested, stream, id);

  Attempt attempt{.request = {requested, stream}, .rounded = rounded};
  Block* block = nullptr;
  try {
    block = climb(space, attempt);
  } catch (...) {
    note_refusal(id, stream);
    throw;
  }
  if (block == nullptr) {
    ++stats_.ooms;
    note_refusal(id, stream);
    return nullptr;
  }
  block = hand_out(block, requested, stream, id);
  count_held_peak();
  return block;
}

/// The request got nothing. In a replay it may get something; then it is given back at once.
void Pool::note_refusal(std::uint64_t id, StreamId stream) { note(RowLog::Op::free, id, {0}, stream); }

Block* Pool::allocate_cached(Bytes requested, StreamId stream) {
  if (awaited_count_ > 0) return nullptr;
  Block* block = usual_->take(usual_->round(requested), stream);
  if (block == nullptr) return nullptr;
  const std::uint64_t id = next_id_++;
  note(RowLog::Op::allocate, id, requested, stream);
  return hand_out(block, requested, stream, id);
}

Block* Pool::climb(Space& space, Attempt& attempt) {
  const Attempt fresh = attempt;
  for (const bool is_last : {false, true}) {
    try {
      return climb_once(space, attempt);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::address_exhaustion) throw;
      if (is_last) break;
      give_addresses_back();
      attempt = fresh;
    }
  }
  failure_ = describe(space, attempt);
  failure_.has_no_addresses = true;
  return nullptr;
}

/// Ranges are released with the last memory in them, so all that is free goes.
void Pool::give_addresses_back() {
  wait_for_events();
  space_->release_everything();
  space_->release_bare_addresses();
  if (whole_ != nullptr) whole_->release_everything();
}

Block* Pool::climb_once(Space& space, Attempt& attempt) {
  Block* block = climb_in(space, attempt);
  if (block == nullptr && take_from_other(space, attempt)) {
    attempt = {.request = attempt.request, .rounded = attempt.rounded, .tried = std::move(attempt.tried)};
    attempt.tried.push_back({Step::Kind::release, false});
    block = climb_in(space, attempt);
  }
  if (block == nullptr) failure_ = describe(space, attempt);
  return block;
}

bool Pool::take_from_other(const Space& space, const Attempt& attempt) {
  if (whole_ == nullptr) return false;
  Space& other = &space == space_.get() ? static_cast<Space&>(*whole_) : *space_;
  const Bytes before = other.own();
  // What is in use stays, so a refusal that is certain leaves what is cached as it is.
  const Bytes most = std::min(space.limit(), space.device_total());
  if (before.count == 0 || stats_.active.now + attempt.rounded > most) return false;
  wait_for_events();
  other.trim(before > attempt.rounded ? before - attempt.rounded : Bytes{0});
  // Chunks are not cut, so what fits may have been too little.
  if (before - other.own() < attempt.rounded) other.release_everything();
  return other.own() < before;
}

Block* Pool::climb_in(Space& space, Attempt& attempt) {
  Space::Answer answer = space.obtain(attempt);
  while (answer == Space::Answer::after_events || answer == Space::Answer::behind_waits) {
    if (answer == Space::Answer::after_events) {
      wait_for_events();
    } else {
      settle_behind_waits();
    }
    answer = space.obtain(attempt);
  }
  stats_.retries += attempt.is_retry ? 1 : 0;
  return answer == Space::Answer::served ? attempt.block : nullptr;
}

Block* Pool::hand_out(Block* block, Bytes requested, StreamId user, std::uint64_t id) {
  block->state = BlockState::live;
  block->requested = requested;
  block->user = user;
  block->id = id;
  ++stats_.allocations;
  live_digest_ ^= live_digest(*block);
  stats_.requested.add(requested);
  stats_.allocated.add(block->size);
  stats_.active.add(block->size);
  return block;
}

/// A block that was freed in the order of this stream, although its segment belongs to another, and that fits as it is.
Block* Pool::take_over(const Space& space, Bytes rounded, StreamId stream) {
  if (stream >= awaited_.size()) return nullptr;
  auto& queue = awaited_[stream];
  const std::size_t count = std::min(queue.size(), kMostLookedAt);
  for (auto at = queue.begin(); at != queue.begin() + static_cast<std::ptrdiff_t>(count); ++at) {
    Block* block = at->block;
    if (!at->is_reusable_here || block->awaited != 1 || &space_of(*block) != &space || !space.serves(*block, rounded))
      continue;
    events_.drop(at->ticket);
    queue.erase(at);
    --awaited_count_;
    --reusable_here_;
    block->awaited = 0;
    count_out(*block);
    return block;
  }
  return nullptr;
}

bool Pool::frees_at_once(const Block& block, StreamId stream) const {
  return block.users.empty() && stream == block.stream && space_of(block).gives_back_at_once(block);
}

void Pool::free(Block* block, StreamId stream) {
  const bool is_in_order = frees_in_order_ && !block->is_whole;
  const bool is_elsewhere = stream != block->stream && !is_in_order;
  if (block->users.empty() && !is_elsewhere) [[likely]] {
    if (is_in_order) space_->free_in_order(*block, stream);
    note_free(*block, stream);
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
  if (is_in_order && streams.empty()) space_->free_in_order(*block, stream);
  note_free(*block, stream);
  if (is_in_order) block->stream = stream;
  block->users.clear();
  block->state = BlockState::pending;
  block->awaited = static_cast<std::uint32_t>(recorded.size());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (awaited_.size() <= streams[i]) awaited_.resize(streams[i] + 1);
    awaited_[streams[i]].push_back(recorded[i]);
    ++awaited_count_;
    reusable_here_ += recorded[i].is_reusable_here ? 1U : 0U;
  }
  if (streams.empty()) {
    make_free(block);
  } else if (block->is_whole && block->stream == kNoStream) {
    // It was exported and is to be released: at once, if the device is done with it. A driver that cannot answer now is
    // asked again at the next operation.
    try {
      poll_events();
    } catch (const Error&) {
    }
  }
}

void Pool::free_unused(Block* block, StreamId stream) {
  const bool was_used_elsewhere = !block->users.empty() || stream != block->stream;
  note_free(*block, stream);
  if (was_used_elsewhere) note(RowLog::Op::event_done, block->id, {0}, 0);
  block->users.clear();
  make_free(block);
}

/// The caller has given it back, whether it is free already or not.
void Pool::note_free(const Block& block, StreamId stream) {
  note(stream == block.user ? RowLog::Op::free : RowLog::Op::free_on, block.id, {0}, stream);
  stats_.allocated.subtract(block.size);
  ++stats_.frees;
}

/// It is neither live nor pending any more.
void Pool::count_out(const Block& block) {
  live_digest_ ^= live_digest(block);
  stats_.requested.subtract(block.requested);
  stats_.active.subtract(block.size);
}

void Pool::make_free(Block* block) {
  count_out(*block);
  space_of(*block).give_back(block);
}

void Pool::record_use(Block* block, StreamId stream) {
  if (stream == block->user || std::ranges::find(block->users, stream) != block->users.end()) return;
  block->users.push_back(stream);
  note(RowLog::Op::record_stream, block->id, {0}, stream);
}

void Pool::settle_oldest(std::deque<Awaited>& queue) {
  const Awaited awaited = queue.front();
  queue.pop_front();
  --awaited_count_;
  reusable_here_ -= awaited.is_reusable_here ? 1U : 0U;
  if (--awaited.block->awaited > 0) return;
  note(RowLog::Op::event_done, awaited.block->id, {0}, 0);
  make_free(awaited.block);
}

void Pool::poll_events() {
  for (auto& queue : awaited_)
    while (!queue.empty() && events_.is_done(queue.front().ticket)) settle_oldest(queue);
}

void Pool::wait_for_events() {
  for (auto& queue : awaited_)
    while (!queue.empty()) {
      events_.wait(queue.front().ticket);
      settle_oldest(queue);
    }
}

/// What is pending becomes free at once: its owners' later work waits on the device for whoever still uses it.
void Pool::settle_behind_waits() {
  for (auto& queue : awaited_)
    while (!queue.empty()) {
      const Awaited& awaited = queue.front();
      bool has_owner = false;
      space_of(*awaited.block).for_each_owner(*awaited.block, [&](StreamId owner) {
        events_.let_wait(owner, awaited.ticket);
        has_owner = true;
      });
      // What goes back to no stream goes back to the driver, which waits for nobody.
      has_owner ? events_.drop(awaited.ticket) : events_.wait(awaited.ticket);
      settle_oldest(queue);
    }
}

bool Pool::preallocate(Bytes size, StreamId stream) {
  if (awaited_count_ > 0) poll_events();
  note(RowLog::Op::preallocate, 0, size, stream);
  const Bytes rounded = usual_->round(size);
  Block* block = usual_->take(rounded, stream);
  if (block == nullptr) {
    Attempt attempt{.request = {size, stream}, .rounded = rounded};
    block = climb(*usual_, attempt);
    count_held_peak();
  }
  if (block != nullptr) usual_->give_back(block);
  return block != nullptr;
}

void Pool::trim(Bytes keep) {
  if (awaited_count_ > 0) poll_events();
  const auto without = [keep](Bytes elsewhere) { return keep > elsewhere ? keep - elsewhere : Bytes{0}; };
  if (whole_ != nullptr) whole_->trim(without(space_->own() + space_->held_on_host().now));
  space_->trim(without(space_->held().now - space_->own()));
  // What was kept because work was still running on it is kept in a replay, too.
  note(RowLog::Op::trim, 0, std::max(keep, space_->held().now + space_->held_on_host().now), 0);
}

void Pool::release_cached() {
  wait_for_events();
  note(RowLog::Op::empty_cache, 0, {0}, 0);
  space_->release_everything();
  if (whole_ != nullptr) whole_->release_everything();
}

void Pool::count_held_peak() {
  // At the first moment of a new peak, with the request counted that made it.
  if (space_->held().peak > held_peak_seen_) {
    held_peak_seen_ = space_->held().peak;
    stats_.allocated_at_held_peak = stats_.allocated.now;
  }
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

Failure Pool::describe(const Space& space, const Attempt& attempt) const {
  const Bytes held = space_->held().now;
  const Bytes on_host = space_->held_on_host().now;
  return {.request = attempt.request,
          .rounded = attempt.rounded,
          .limit = space_->limit(),
          .device_total = space_->device_total(),
          .held = held,
          .held_on_host = on_host,
          .live = stats_.allocated.now,
          .pending = stats_.active.now - stats_.allocated.now,
          .free = held + on_host - stats_.active.now,
          .free_for_it = space.free_for(attempt),
          .largest_free = largest_free(),
          .pending_on = pending_on(),
          .tried = attempt.tried};
}

void Pool::write_to(RowLog* log) {
  log_ = log;
  if (log == nullptr) return;
  std::vector<const Block*> live;
  for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  for (const Block* block : live) {
    log->add(RowLog::Op::allocate, block->id, block->requested, block->user);
    for (const StreamId user : block->users) log->add(RowLog::Op::record_stream, block->id, {0}, user);
  }
}

}  // namespace memlake
