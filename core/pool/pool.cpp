#include "pool/pool.hpp"

#include <algorithm>
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

Pool::Pool(std::unique_ptr<Space> space, EventSource& events) : events_(events), spaces_(std::move(space)) {}

Pool::~Pool() = default;

std::vector<bool> Pool::streams_in_use(std::size_t count) const {
  std::vector<bool> is_used(count);
  for (const StreamId stream : pending_.streams()) is_used[stream] = true;
  spaces_.for_each([&](const Block& block) {
    if (block.state != BlockState::live && block.state != BlockState::pending) return;
    is_used[block.stream] = true;
    is_used[block.user] = true;
    for (const StreamId user : block.users) is_used[user] = true;
  });
  return is_used;
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
    named.emplace(events_.handles(), stream);
    named_users.reserve(block->users.size());
    for (const StreamId user : block->users) named_users.emplace_back(events_.handles(), user);
  }
  OrderedFrees* ordered = spaces_.of(*block).facets().ordered_frees;
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
    pending_.add(stream, awaited);
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
    bool is_refused = !events_.progress().can_record(stream);
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
    pending_.add(streams[i], recorded[i]);
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

/// The caller has given it back, whether it is free already or not.
void Pool::note_free(const Block& block, StreamId stream) {
  note(stream == block.user ? RowLog::Op::free : RowLog::Op::free_on, block.id, {0}, stream);
  figures_.count_free(block);
  pending_.note_free(block.stream);
  watchers_.on_free(block);
}

/// It is neither live nor pending any more.
void Pool::count_out(const Block& block) {
  live_digest_ ^= live_digest(block);
  figures_.count_free_again(block);
  watchers_.on_free_again(block);
}

void Pool::make_free(Block* block) {
  count_out(*block);
  spaces_.of(*block).give_back(block);
}

void Pool::record_use(Block* block, StreamId stream) {
  if (stream == block->user || std::ranges::find(block->users, stream) != block->users.end()) return;
  block->users.push_back(stream);
  note(RowLog::Op::record_stream, block->id, {0}, stream);
}

void Pool::settle(Block* block) {
  note(RowLog::Op::event_done, block->id, {0}, 0);
  make_free(block);
}

void Pool::poll_events() {
  pending_.poll([this](Block* block) { settle(block); });
}

void Pool::wait_for_events() {
  pending_.wait([this](Block* block) { settle(block); });
}

void Pool::settle_behind_waits(bool may_wait) {
  const auto owners_of = [this](const Block& block, std::vector<StreamId>& owners) {
    if (const SeveralOwners* several = spaces_.of(block).facets().several_owners) {
      several->for_each_owner(block, [&](StreamId owner) { owners.push_back(owner); });
    } else {
      owners.push_back(block.stream);
    }
  };
  pending_.settle_behind_waits(may_wait, owners_of, [this](Block* block) { settle(block); });
}

void Pool::retry_leftovers() {
  if (leftovers_ == nullptr) return;
  if (leftovers_->has_any()) leftovers_->retry();
  spaces_.budget()->unreleased = leftovers_->held();
}

void Pool::trim(Bytes keep) {
  const RelaxedCapture relaxed(events_.driver());
  retry_leftovers();
  if (pending_.count() > 0) poll_events();
  const auto all = [this] { return spaces_.held().now + spaces_.spilled().now; };
  // The policy's space comes last: its memory serves most requests.
  for (auto space = spaces_.rbegin(); space != spaces_.rend(); ++space) {
    const Bytes elsewhere = all() - ((*space)->ledger().held() + (*space)->ledger().spilled().now);
    (*space)->trim(keep.excess_over(elsewhere));
  }
  if (leftovers_ != nullptr) spaces_.budget()->unreleased = leftovers_->held();
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

void Pool::write_to(RowLog* log) {
  log_ = log;
  ++log_number_;
  if (log == nullptr) return;
  std::vector<const Block*> live;
  spaces_.for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  for (const Block* block : live) {
    note_request(spaces_.of(*block), block->id, block->requested, block->user);
    for (const StreamId user : block->users) log->add(RowLog::Op::record_stream, block->id, {0}, user);
  }
}

}  // namespace memlake
