#include "pool/pool.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "blocks/live_digest.hpp"
#include "driver/relaxed_capture.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {

Pool::Pool(std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy, EventSource& events, Bytes limit)
    : Pool(
          std::make_unique<SegmentSpace>(std::move(device), std::move(policy), events, std::make_shared<Budget>(limit)),
          events) {}

Pool::Pool(std::unique_ptr<Space> space, EventSource& events) : events_(events), default_space_(space.get()) {
  by_number_.push_back(space.get());
  spaces_.push_back(std::move(space));
}

Pool::~Pool() = default;

const Level& Pool::held() const {
  // A space whose memory the driver counts asks it now.
  for (const auto& space : spaces_) static_cast<void>(space->ledger());
  return budget()->held;
}

Level Pool::spilled() const {
  Level sum;
  for (const auto& space : spaces_) {
    const Level& spilled = space->ledger().spilled();
    sum.now = sum.now + spilled.now;
    sum.peak = sum.peak + spilled.peak;
  }
  return sum;
}

bool Pool::has_risen_to(Bytes mark) {
  static_cast<void>(held());
  return budget()->has_risen_to(mark);
}

PoolStats Pool::stats() const {
  PoolStats stats = stats_;
  stats.held = held();
  stats.held.now = stats.held.now + unreleased();
  stats.held.peak = std::max(stats.held.peak, stats.held.now);
  stats.active.peak = std::max(stats.active.peak, active_peak_before_);
  stats.held_on_host = spilled();
  stats.graph_held.now = held_by_graphs();
  stats.graph_held.peak = std::max(stats.graph_held.peak, stats.graph_held.now);
  return stats;
}

void Pool::reset_peaks() {
  if (SizeCounts* counts = size_counts()) counts->reset_peaks();
  for (Level* level : {&stats_.requested, &stats_.allocated, &stats_.graph_live}) level->peak = level->now;
  stats_.graph_held.peak = {0};
  reset_active_peak();
  reset_held_peak();
}

void Pool::reset_active_peak() {
  for (const auto& space : spaces_)
    if (DriverCounts* counts = space->facets().driver_counts) counts->reset_used_peak();
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
  for (const auto& space : spaces_) space->reset_peaks();
  budget()->held.peak = held().now;
  stats_.allocated_at_held_peak = stats_.allocated.now;
  held_peak_seen_ = held().now;
}

Space& Pool::add_space(std::unique_ptr<Space> space, bool is_default) {
  constexpr std::size_t most = std::size_t{std::numeric_limits<decltype(Block::space)>::max()} + 1;
  const bool has_unused = spaces_.size() < by_number_.size();
  auto number = has_unused ? std::ranges::find(by_number_, nullptr) : by_number_.end();
  if (number == by_number_.end() && by_number_.size() == most)
    throw Error(ErrorKind::config,
                "a pool has at most " + std::to_string(most) + " spaces, and this one has them all; make another pool");
  const StreamReuse* policys = policy_space().facets().reuse;
  if (StreamReuse* reuse = space->facets().reuse)
    reuse->set_reuse_rules(policys == nullptr ? ReuseRules{false, false, false} : policys->reuse_rules());
  space->set_peers(policy_space().peers());
  spaces_.reserve(spaces_.size() + 1);
  if (number == by_number_.end()) number = by_number_.insert(number, nullptr);
  *number = space.get();
  space->set_number(static_cast<std::uint16_t>(number - by_number_.begin()));
  space->set_observer(watch_.get());
  spaces_.push_back(std::move(space));
  if (is_default) default_space_ = spaces_.back().get();
  return *spaces_.back();
}

void Pool::set_reuse_rules(const ReuseRules& rules) {
  for (const auto& space : spaces_)
    if (StreamReuse* reuse = space->facets().reuse) reuse->set_reuse_rules(rules);
}

void Pool::set_peers(const std::vector<std::shared_ptr<Device>>& peers) {
  const auto before = policy_space().peers();
  std::size_t changed = 0;
  try {
    for (; changed < spaces_.size(); ++changed) spaces_[changed]->set_peers(peers);
  } catch (...) {
    for (std::size_t i = 0; i < changed; ++i) spaces_[i]->set_peers(before);
    throw;
  }
}

void Pool::for_each(const std::function<void(const Block&)>& visit) const {
  for (const auto& space : spaces_) space->for_each(visit);
}

std::vector<bool> Pool::streams_in_use(std::size_t count) const {
  std::vector<bool> is_used(count);
  for (const StreamId stream : waiting_) is_used[stream] = true;
  for_each([&](const Block& block) {
    if (block.state != BlockState::live && block.state != BlockState::pending) return;
    is_used[block.stream] = true;
    is_used[block.user] = true;
    for (const StreamId user : block.users) is_used[user] = true;
  });
  return is_used;
}

std::size_t Pool::segment_count() const {
  std::size_t count = 0;
  for (const auto& space : spaces_) count += space->segment_count();
  return count;
}

Bytes Pool::largest_free() const {
  Bytes largest{0};
  for (const auto& space : spaces_) {
    const GraphPool* graph_pool = space->graph_pool().get();
    // What graphs use is free for them alone.
    if (graph_pool == nullptr || !graph_pool->keeps_memory()) largest = std::max(largest, space->largest_free());
  }
  return largest;
}

std::vector<Pool::Awaited> Pool::record(Block* block, const std::vector<StreamId>& streams, bool is_final) {
  std::vector<Awaited> recorded;
  recorded.reserve(streams.size());
  try {
    for (const StreamId user : streams) recorded.push_back({events_.record(user, *block), block, false});
  } catch (...) {
    for (const Awaited& awaited : recorded) events_.drop(awaited.ticket);
    if (!is_final) throw;
    recorded.clear();
    for (const StreamId user : streams) recorded.push_back({events_.record_later(user, *block), block, false});
  }
  return recorded;
}

void Pool::free_slowly(Block* block, StreamId stream, Freeing how) {
  const bool is_final = how.is_final;
  std::optional<Naming> named;
  std::vector<Naming> named_users;
  if (how.names_streams) {
    named.emplace(events_, stream);
    named_users.reserve(block->users.size());
    for (const StreamId user : block->users) named_users.emplace_back(events_, user);
  }
  OrderedFrees* ordered = space_of(*block).facets().ordered_frees;
  const bool is_for_others = block->give_back == GiveBack::to_several || block->give_back == GiveBack::to_driver;
  // The usual case, one event of one stream, needs no lists. A capture of another thread allows the record of an event.
  if (ordered == nullptr && !is_for_others && stream != block->stream && block->users.empty()) {
    const auto record = [&] {
      try {
        return events_.record(stream, *block);
      } catch (...) {
        if (!is_final) throw;
        return events_.record_later(stream, *block);
      }
    };
    const Awaited awaited{record(), block, true};
    note_free(*block, stream);
    block->state = BlockState::pending;
    block->awaited = 1;
    add_awaited(stream, awaited);
    return;
  }
  const RelaxedCapture relaxed(events_.driver());
  std::vector<StreamId> streams(block->users);
  std::erase(streams, stream);
  const bool has_others = !streams.empty();
  if (ordered == nullptr) {
    if (stream != block->stream || is_for_others) streams.push_back(stream);
  } else if (streams.empty()) {
    // The driver frees it, unless a graph would capture that, or the stream cannot be used.
    bool is_refused = !events_.can_record(stream);
    try {
      if (!is_refused) ordered->free_in_order(*block, stream);
    } catch (const Error&) {
      if (!is_final) throw;
      is_refused = true;
    }
    if (is_refused) streams.push_back(stream);
  }
  // Recording may fail; then the block is still live, and what was recorded is dropped.
  std::vector<Awaited> recorded = record(block, streams, is_final);
  note_free(*block, stream);
  if (ordered != nullptr) block->stream = stream;
  block->users.clear();
  if (streams.empty()) {
    make_free(block);
    return;
  }
  block->state = BlockState::pending;
  block->awaited = static_cast<std::uint32_t>(recorded.size());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    recorded[i].is_reusable_here = streams[i] == stream && !has_others && ordered == nullptr;
    add_awaited(streams[i], recorded[i]);
  }
  if (block->give_back == GiveBack::to_driver) {
    // It is released at once if the device has finished with it. A driver that cannot answer now is asked again at the
    // next operation.
    try {
      poll_events();
    } catch (const Error&) {
    }
  }
}

void Pool::add_awaited(StreamId stream, const Awaited& awaited) {
  if (awaited_.size() <= stream) awaited_.resize(stream + 1);
  if (awaited_[stream].empty())
    if (const auto at = std::ranges::lower_bound(waiting_, stream); at == waiting_.end() || *at != stream)
      waiting_.insert(at, stream);
  awaited_[stream].push_back(awaited);
  ++awaited_count_;
  reusable_here_ += awaited.is_reusable_here ? 1U : 0U;
}

/// The caller has given it back, whether it is free already or not.
void Pool::note_free(const Block& block, StreamId stream) {
  note(stream == block.user ? RowLog::Op::free : RowLog::Op::free_on, block.id, {0}, stream);
  stats_.allocated.subtract(block.size);
  ++stats_.frees;
  if (!graph_pools_.empty()) [[unlikely]]
    count_graph(space_of(block), {0}, block.size);
  if (host_waiters_ > 0) [[unlikely]]
    ++freed_while_waiting_[block.stream];
  if (watch_ != nullptr) [[unlikely]]
    watch_->on_free(block);
}

/// It is neither live nor pending any more.
void Pool::count_out(const Block& block) {
  live_digest_ ^= live_digest(block);
  stats_.requested.subtract(block.requested);
  stats_.active.subtract(block.size);
  if (watch_ != nullptr) [[unlikely]]
    watch_->on_free_again(block, space_of(block));
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
  const RelaxedCapture relaxed(events_.driver());
  for_each_queue([this](std::deque<Awaited>& queue) {
    while (!queue.empty() && events_.is_done(queue.front().ticket)) settle_oldest(queue);
  });
}

void Pool::wait_for_events() {
  const RelaxedCapture relaxed(events_.driver());
  for_each_queue([this](std::deque<Awaited>& queue) {
    while (!queue.empty() && events_.has_point(queue.front().ticket)) {
      events_.wait(queue.front().ticket);
      settle_oldest(queue);
    }
  });
}

void Pool::settle_behind_waits(bool may_wait) {
  const RelaxedCapture relaxed(events_.driver());
  std::vector<StreamId> owners;
  for_each_queue([&](std::deque<Awaited>& queue) {
    while (!queue.empty() && events_.has_point(queue.front().ticket)) {
      const Awaited& awaited = queue.front();
      owners.clear();
      if (const SeveralOwners* several = space_of(*awaited.block).facets().several_owners) {
        several->for_each_owner(*awaited.block, [&](StreamId owner) { owners.push_back(owner); });
      } else {
        owners.push_back(awaited.block->stream);
      }
      const auto has_to_stay = [&](StreamId owner) {
        return events_.is_capturing(owner) || (!may_wait && !events_.usable_handle_of(owner));
      };
      if (std::ranges::any_of(owners, has_to_stay)) break;
      for (const StreamId owner : owners) events_.let_wait(owner, awaited.ticket);
      // What goes back to no stream goes back to the driver, which waits for no stream.
      owners.empty() ? events_.wait(awaited.ticket) : events_.drop(awaited.ticket);
      settle_oldest(queue);
    }
  });
}

void Pool::retry_leftovers() {
  if (leftovers_ == nullptr) return;
  if (leftovers_->has_any()) leftovers_->retry();
  budget()->unreleased = leftovers_->held();
}

void Pool::trim(Bytes keep) {
  const RelaxedCapture relaxed(events_.driver());
  retry_leftovers();
  if (awaited_count_ > 0) poll_events();
  const auto all = [this] { return held().now + spilled().now; };
  // The policy's space comes last: its memory serves most requests.
  for (auto space = spaces_.rbegin(); space != spaces_.rend(); ++space) {
    const Bytes elsewhere = all() - ((*space)->ledger().held() + (*space)->ledger().spilled().now);
    (*space)->trim(keep.excess_over(elsewhere));
  }
  if (leftovers_ != nullptr) budget()->unreleased = leftovers_->held();
  remove_ended_graphs();
  // What was kept because work was still running on it is kept in a replay, too.
  note(RowLog::Op::trim, 0, std::max(keep, all()), 0);
}

namespace {

/// As long as it lives, a graph pool that no graph has captured gives its free memory back.
class GivingBack {
 public:
  explicit GivingBack(GraphPool* graph_pool) : graph_pool_(graph_pool) {
    if (graph_pool_ != nullptr) graph_pool_->gives_back = !graph_pool_->is_captured;
  }
  GivingBack(const GivingBack&) = delete;
  GivingBack& operator=(const GivingBack&) = delete;
  ~GivingBack() {
    if (graph_pool_ != nullptr) graph_pool_->gives_back = false;
  }

 private:
  GraphPool* graph_pool_;
};

}  // namespace

void Pool::release_cached() {
  const RelaxedCapture relaxed(events_.driver());
  wait_for_events();
  retry_leftovers();
  note(RowLog::Op::empty_cache, 0, {0}, 0);
  release_ended_graphs(true);
  for (const auto& space : spaces_) {
    const GivingBack giving(space->graph_pool().get());
    space->release_everything();
  }
}

void Pool::count_held_peak() {
  // At the first moment of a new peak, with the request counted that made it.
  if (const Bytes peak = held().peak; peak > held_peak_seen_) {
    held_peak_seen_ = peak;
    stats_.allocated_at_held_peak = stats_.allocated.now;
  }
  if (!graph_pools_.empty()) [[unlikely]]
    stats_.graph_held.peak = std::max(stats_.graph_held.peak, held_by_graphs());
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

void Pool::write_to(RowLog* log) {
  log_ = log;
  ++log_number_;
  if (log == nullptr) return;
  std::vector<const Block*> live;
  for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  for (const Block* block : live) {
    note_request(space_of(*block), block->id, block->requested, block->user);
    for (const StreamId user : block->users) log->add(RowLog::Op::record_stream, block->id, {0}, user);
  }
}

}  // namespace memlake
