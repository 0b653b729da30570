// The part of Pool that finds the block for a request: a free block, then all attempts in order, or a refusal.
//
// A request that finds no free block may begin again at four places. From the outermost to the innermost:
//
// 1. `until_there_is_memory` (src/memlake/pool/refusals.py): a function of `on_failure` asks for another try.
// 2. LiveSharing::without_refused_features(): the driver has refused a feature. Each turn goes on without one feature
//    more.
// 3. LockedPool::waiting(): the request has to wait for a stream. The thread waits without the lock, and other threads
//    use the pool meanwhile, so the search begins anew.
// 4. Pool::climb(): a rung has released memory that may have been in the way. Each turn releases some, and the last one
//    releases none.
//
// Pool::acquire() is no loop: it searches at most twice, and each search climbs at most twice.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "blocks/live_digest.hpp"
#include "driver/relaxed_capture.hpp"
#include "pool/pool.hpp"
#include "streams/host_wait.hpp"

namespace memlake {

std::uint64_t Pool::begin_request(const Space& space, Bytes requested, StreamId stream, RequestRow* row) {
  if (row == nullptr) {
    const std::uint64_t id = next_id_++;
    note_request(space, id, requested, stream);
    return id;
  }
  if (!row->id) row->id = next_id_++;
  if (std::exchange(row->log, log_number_) != log_number_) note_request(space, *row->id, requested, stream);
  return *row->id;
}

void Pool::give_up(RequestRow& row, StreamId stream) {
  if (row.id && row.log == log_number_) note_refusal(*row.id, stream);
  row = {};
}

Block* Pool::take_free(Space& space, Bytes requested, StreamId stream, RequestRow* row) {
  if (pending_.count() > 0) poll_events();
  if (pending_.count() > 0)
    if (const Crowding* crowding = space.facets().crowding; crowding != nullptr && crowding->is_crowded())
      settle_behind_waits(false);
  const Bytes rounded = space.round(requested);
  Block* block = pending_.reusable_count() > 0 ? take_over(space, rounded, stream) : nullptr;
  if (block == nullptr) block = space.take(rounded, stream);
  if (block == nullptr) [[unlikely]]
    return nullptr;
  return hand_out(space, block, requested, stream, begin_request(space, requested, stream, row));
}

Block* Pool::allocate(Space& space, Bytes requested, StreamId stream, RequestRow* row) {
  if (Block* block = take_free(space, requested, stream, row)) [[likely]]
    return block;
  // Before the search: meanwhile other threads may make requests.
  const std::uint64_t id = begin_request(space, requested, stream, row);
  const Bytes rounded = space.round(requested);
  Attempt attempt{.request = {requested, stream}, .rounded = rounded};
  Block* block = nullptr;
  try {
    block = acquire(space, attempt, row);
  } catch (const HostWait&) {
    throw;  // the caller begins anew, or gives up
  } catch (...) {
    note_refusal(id, stream);
    if (row != nullptr) *row = {};
    throw;
  }
  if (block == nullptr) {
    figures_.count_refusal();
    note_refusal(id, stream);
    return nullptr;
  }
  block = hand_out(space, block, requested, stream, id);
  if (GraphPool* graph_pool = space.graph_pool().get()) graph_pool->kept = graphs_.held_by(*graph_pool);
  figures_.count_held_peak();
  watchers_.on_search();
  return block;
}

Block* Pool::acquire(Space& space, Attempt& attempt, RequestRow* row) {
  const RelaxedCapture relaxed(events_.driver());
  retry_leftovers();
  // What graphs no longer use comes first, unless the host would have to wait for it.
  release_ended_graphs(false);
  std::optional<Block*> found = search(space, attempt, row);
  if (!found) {
    // Addresses ran out: all free memory goes back, with its addresses; then everything again, once.
    give_addresses_back();
    attempt.tried.clear();
    attempt.start_over();
    found = search(space, attempt, row);
  }
  Block* block = found.value_or(nullptr);
  if (block == nullptr) refusal_ = {&space, attempt, !found};
  return block;
}

std::optional<Block*> Pool::search(Space& space, Attempt& attempt, RequestRow* row) {
  try {
    // The space's own ladder, with the pool's waits in it.
    if (Block* block = climb(space, attempt, row)) return block;
    // Free memory of the pool's other spaces goes back to the driver; then the ladder again.
    if (!release_in_others(space, attempt)) return nullptr;
    attempt.tried.push_back({Tried::What::release, false});
    attempt.start_over();
    return climb(space, attempt, row);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::address_exhaustion) throw;
    return std::nullopt;
  }
}

Block* Pool::climb(Space& space, Attempt& attempt, RequestRow* row) {
  Block* block = try_rungs(space, attempt, row);
  while (block == nullptr && attempt.starts_over) {
    attempt.start_over();
    block = try_rungs(space, attempt, row);
  }
  if (attempt.is_retry) {
    figures_.count_retry();
    if (row != nullptr) row->is_retry_due = false;
  }
  return block;
}

Block* Pool::try_rungs(Space& space, Attempt& attempt, RequestRow* row) {
  const Ladder ladder = space.ladder(attempt);
  for (const Rung rung : ladder) {
    Block* block = nullptr;
    switch (rung) {
      case Rung::wait_on_device:
        attempt.tried.push_back({Tried::What::wait_on_device, false});
        settle_behind_waits(true);
        break;
      case Rung::wait_for_events:
        attempt.tried.push_back({Tried::What::wait_for_events, false});
        try {
          wait_for_events();
        } catch (const HostWait&) {
          if (row != nullptr && std::ranges::find(ladder, Rung::release_cached) != ladder.end())
            row->is_retry_due = true;
          throw;
        }
        break;
      default:
        block = space.climb(rung, attempt);
    }
    if (block != nullptr) return block;
    if (attempt.is_hopeless) break;
  }
  return nullptr;
}

bool Pool::release_in_others(const Space& space, const Attempt& attempt) {
  // What is in use stays, so a refusal that is certain leaves what is cached as it is.
  const Bytes most = std::min(spaces_.budget()->limit, spaces_.policy().devices().total());
  if (figures_.active() + attempt.rounded > most) return false;
  Bytes gained = spaces_.held().now;
  release_ended_graphs(true);
  gained = gained - spaces_.held().now;
  if (figures_.active() + graphs_.kept(&space) + attempt.rounded > most) return gained.count > 0;
  bool has_waited = false;
  for (const auto& other : spaces_) {
    const Bytes before = other->ledger().held();
    if (other.get() == &space || before.count == 0 || gained >= attempt.rounded) continue;
    if (other->graph_pool() != nullptr) continue;  // graphs use it, or it went before
    if (!std::exchange(has_waited, true)) wait_for_events();
    const Bytes lacking = attempt.rounded - gained;
    other->trim(before.excess_over(lacking));
    // Chunks are not cut, so what fits may have been too little. A space on one of several devices needs memory there.
    const bool needs_one_device = space.devices().count() > 1 && space.facets().several_places == nullptr;
    if (needs_one_device || before - other->ledger().held() < lacking) other->release_everything();
    gained = gained + (before - other->ledger().held());
  }
  return gained.count > 0;
}

/// Ranges are released with the last memory in them, so all that is free goes.
void Pool::give_addresses_back() {
  wait_for_events();
  for (const auto& space : spaces_) {
    space->release_everything();
    if (BareAddresses* bare = space->facets().bare_addresses) bare->release_bare_addresses();
  }
}

/// The request got nothing. In a replay it may get something; then it is given back at once.
void Pool::note_refusal(std::uint64_t id, StreamId stream) { note(RowLog::Op::free, id, {0}, stream); }

Block* Pool::take_at_once(Bytes requested, StreamId stream) {
  if (pending_.count() > 0) return nullptr;
  Space& space = spaces_.by_default();
  Block* block = space.take(space.round(requested), stream);
  if (block == nullptr) return nullptr;
  const std::uint64_t id = next_id_++;
  note_request(space, id, requested, stream);
  return hand_out(space, block, requested, stream, id);
}

bool Pool::preallocate(Bytes size, StreamId stream, RequestRow* row) {
  if (pending_.count() > 0) poll_events();
  if (row == nullptr || std::exchange(row->log, log_number_) != log_number_)
    note(RowLog::Op::preallocate, 0, size, stream);
  Space& space = spaces_.by_default();
  const Bytes rounded = space.round(size);
  Block* block = space.take(rounded, stream);
  if (block == nullptr) {
    Attempt attempt{.request = {size, stream}, .rounded = rounded};
    block = acquire(space, attempt, row);
    figures_.count_held_peak();
  }
  if (block != nullptr) space.give_back(block);
  return block != nullptr;
}

Block* Pool::hand_out(const Space& space, Block* block, Bytes requested, StreamId user, std::uint64_t id) {
  block->state = BlockState::live;
  block->requested = requested;
  block->user = user;
  block->id = id;
  block->space = space.number();
  live_digest_ ^= live_digest(*block);
  figures_.count_hand_out(space, *block);
  watchers_.on_hand_out(*block);
  return block;
}

/// A block that was freed in the order of this stream, although its segment belongs to another, and that fits as it is.
Block* Pool::take_over(const Space& space, Bytes rounded, StreamId stream) {
  Block* block = pending_.take_reusable(
      stream, [&](const Block& freed) { return &spaces_.of(freed) == &space && space.serves(freed, rounded); });
  if (block != nullptr) count_out(*block);
  return block;
}

}  // namespace memlake
