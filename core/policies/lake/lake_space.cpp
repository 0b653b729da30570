#include "policies/lake/lake_space.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/host_memory.hpp"
#include "policies/lake/lake_tuning.hpp"

namespace memlake {

namespace {

// While there is room, memory of a stream that only happens to have passed is left to it.
constexpr Rung kLadder[] = {Rung::search_ordered,   Rung::grow,           Rung::wait_on_device,
                            Rung::wait_for_threads, Rung::wait_if_scarce, Rung::gather,
                            Rung::gather_asking,    Rung::gather_waiting, Rung::spill};
// If no stream may wait for another one on the device.
constexpr Rung kLadderOfHost[] = {Rung::search_ordered,   Rung::grow,           Rung::wait_for_events,
                                  Rung::wait_for_threads, Rung::wait_if_scarce, Rung::gather,
                                  Rung::gather_asking,    Rung::gather_waiting, Rung::spill};

}  // namespace

LakeSpace::LakeSpace(std::vector<std::shared_ptr<Device>> devices, const LakeOptions& options, EventSource& events,
                     std::shared_ptr<Budget> budget)
    : Space(devices, options.location == Location::device ? total_memory(devices) : host_memory(), events,
            Ledger(std::move(budget), devices.size())),
      devices_(std::move(devices)),
      options_(options),
      granule_(common_granularity(devices_)),
      clock_(events) {
  facets_ = {.reuse = this,
             .several_owners = this,
             .crowding = this,
             .several_places = this,
             .peer_access = this,
             .counters = this};
  location_ = options_.location;
  for (const auto& device : devices_) {
    const Bytes total = device->total_memory();
    homes_.push_back({.total = total, .most = total});
  }
  if (options_.location == Location::device && !options_.may_spill) return;
  const bool is_numa = options_.location != Location::host;
  for (const auto& device : devices_) static_cast<void>(device->host_location(is_numa));  // all of them must be able
  host_ = device_->host_location(is_numa);
  granule_ = {std::lcm(granule_.count, device_->host_granularity(host_).count)};
  if (options_.location != Location::device) homes_ = {{.total = device_total_, .most = device_total_}};
}

LakeSpace::~LakeSpace() = default;

Block* LakeSpace::take(Bytes rounded, StreamId stream) {
  LakeBlock* run = find(rounded, stream);
  return run == nullptr ? nullptr : take_high(run, rounded);
}

Ladder LakeSpace::ladder(const Attempt&) const {
  return rules_.allow_internal_dependencies ? Ladder(kLadder) : Ladder(kLadderOfHost);
}

Block* LakeSpace::climb(Rung rung, Attempt& attempt) {
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  Lane& lane = lane_of(stream, size <= kLargestSmall);
  switch (rung) {
    case Rung::search_ordered:
      free_in_one_range_.reset();
      reap();
      if (LakeBlock* run = find_ordered(size, stream)) {
        let_wait(stream, *run);
        return take_high(run, size);
      }
      return nullptr;
    case Rung::grow:
      if (room() < granule_ || size > budget()) return nullptr;
      return try_to(attempt, Tried::What::map, [&] { return grow(lane, size); });
    case Rung::wait_for_threads:
      reap();
      // Memory that other threads are making may serve this request, too; and it cannot be gathered before.
      if (unlocker_ != nullptr) unlocker_->wait_for_others();
      return nullptr;
    case Rung::wait_if_scarce:
      if (is_scarce(size) && find_elsewhere(size, stream) == nullptr) wait_for_streams();
      return nullptr;
    case Rung::gather:
      return gather(attempt, lane);
    case Rung::gather_asking:
      return has_more_than_known() ? gather(attempt, lane) : nullptr;
    case Rung::gather_waiting:
      return wait_for_streams() ? gather(attempt, lane) : nullptr;
    default:
      return options_.may_spill ? spill(attempt, lane) : nullptr;
  }
}

bool LakeSpace::is_scarce(Bytes size) const {
  // A bad placement would mean out of memory. Where little is in use there is no such placement.
  const double most = static_cast<double>(budget().count);
  return static_cast<double>((used_ + size).count) > (1 - kScarce) * most && size <= budget() &&
         used_.count > budget().count / 2;
}

bool LakeSpace::is_crowded() const {
  return rules_.allow_internal_dependencies &&
         static_cast<double>(used_.count) > kCrowded * static_cast<double>(budget().count);
}

bool LakeSpace::wait_for_streams() {
  bool has_waited = false;
  const auto wait = [&](const StreamClock::Freed& freed) {
    if (clock_.has_passed(freed)) return;
    clock_.wait(freed);
    has_waited = true;
  };
  for (const Retired& retired : retired_) wait(retired.freed);
  for (const Part& part : whole_chunks(nullptr)) wait(part.run->freed());
  if (has_waited) reap();
  return has_waited;
}

bool LakeSpace::has_more_than_known() {
  bool has_more = false;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    Home& home = homes_[i];
    if (home.most == home.total) continue;
    const Bytes free = options_.location == Location::device ? devices_[i]->free_memory() : free_host_memory();
    const Bytes now = std::min(home.total, taken_on(i) + down(free));
    has_more |= now > home.most;
    home.most = std::max(home.most, now);
  }
  return has_more;
}

Block* LakeSpace::gather(Attempt& attempt, Lane& lane) {
  const Bytes size = attempt.rounded;
  const StreamId stream = attempt.request.stream;
  if (size > std::max(budget(), ledger_.held())) return nullptr;  // a limit below what is held takes nothing away
  LakeBlock* run = find(size, stream);
  if (run == nullptr) run = find_elsewhere(size, stream);
  if (run != nullptr && (run->stream == stream || events_.can_record(run->stream))) {
    let_wait(stream, *run);
    return take_high(run, size);
  }
  if (Block* block = try_to(attempt, Tried::What::map, [&] { return grow(lane, size); })) return block;
  // A driver that has less than it should have makes the budget smaller; then a second plan may do with what is there.
  for (int tries = 0; tries < 2; ++tries) {
    Block* block = try_to(attempt, Tried::What::gather, [&]() -> Block* {
      std::optional<Plan> found = plan(lane, size);
      return found ? carry_out(*found, size) : nullptr;
    });
    reap();
    if (block != nullptr) return block;
    if (attempt.tried.empty() || !attempt.tried.back().has_failed) break;
  }
  attempt.tried.push_back({Tried::What::gather, false});
  return nullptr;
}

void LakeSpace::give_back(Block* block) {
  auto* mine = static_cast<LakeBlock*>(block);
  used_ = used_ - mine->size;
  if (mine->view != nullptr) {
    end_view(mine);
    return;
  }
  mine->state = BlockState::free;
  mine->freed_at = clock_.now(mine->stream);
  offer(mine);
}

void LakeSpace::for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  visit(static_cast<const Range&>(*mine.memory).lane.stream);
  if (mine.view == nullptr) return;
  for (const View::Piece& piece : mine.view->pieces) visit(piece.lent->stream);
}

void LakeSpace::for_each(const std::function<void(const Block&)>& visit) const {
  for_each_lane([&](const Lane& lane) {
    for (const auto& range : lane.ranges)
      for (const LakeBlock* block = range->lowest; block != nullptr; block = block->above()) visit(*block);
  });
}

std::size_t LakeSpace::segment_count() const {
  std::size_t count = 0;
  for_each_lane([&](const Lane& lane) { count += lane.ranges.size(); });
  return count;
}

Bytes LakeSpace::reserved_addresses() const {
  Bytes sum{0};
  for_each_lane([&](const Lane& lane) {
    for (const auto& range : lane.ranges) sum = sum + range->range.size;
  });
  return sum;
}

Bytes LakeSpace::largest_free() const {
  Bytes largest{0};
  for (std::size_t stream = 0; stream < lanes_.size(); ++stream)
    largest = std::max(largest, largest_free(static_cast<StreamId>(stream)));
  return largest;
}

Bytes LakeSpace::largest_free(StreamId stream) const {
  Bytes largest{0};
  for (const bool is_small : {true, false})
    if (const Lane* lane = known_lane(stream, is_small); lane != nullptr)
      for (const FreeIndex* index : {&lane->free, &lane->spilled})
        if (!index->is_empty()) largest = std::max(largest, index->last()->size);
  return largest;
}

std::vector<Counter> LakeSpace::counters() const {
  return {{"moved_chunks", counters_.moved_chunks},
          {"borrowed_pieces", counters_.borrowed_pieces},
          {"recreated_chunks", counters_.recreated_chunks},
          {"stream_waits", counters_.stream_waits},
          {"reused_by_event", counters_.reused_by_event},
          {"reused_opportunistically", counters_.reused_opportunistically},
          {"chunks", chunks_.size()},
          {"reserved_addresses", reserved_addresses().count}};
}

void LakeSpace::for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  Address at = mine.address;
  if (mine.view != nullptr) {
    const auto& pieces = mine.view->pieces;  // from high to low
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      visit(piece->chunk->device, piece->lent->size);
      at = at + piece->lent->size;
    }
  }
  const Range& range = static_cast<const Range&>(*mine.memory);
  while (at < mine.end()) {
    const LakeChunk* chunk = range.chunk_at(at);
    const Address end = std::min(chunk->at().end(), mine.end());
    visit(chunk->device, end - at);
    at = end;
  }
}

void LakeSpace::change_access(const Devices& added, const Devices& removed) {
  std::vector<AddressRange> ranges;
  for (const auto& chunk : chunks_) ranges.push_back(chunk->at());
  for_each([&](const Block& block) {
    const auto& mine = static_cast<const LakeBlock&>(block);
    if (mine.view == nullptr) return;
    for (const View::Piece& piece : mine.view->pieces) ranges.push_back(piece.mapping.range());
  });
  change_rights_of(ranges, added, removed);
}

std::uint64_t LakeSpace::generation(const Block& block) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  const Range& range = static_cast<const Range&>(*mine.memory);
  std::uint64_t latest = mine.view == nullptr ? 0 : mine.view->since;
  for (Address at = mine.view == nullptr ? mine.address : mine.view->top; at < mine.end();) {
    const LakeChunk* chunk = range.chunk_at(at);
    latest = std::max(latest, chunk->since);
    at = chunk->at().end();
  }
  return latest;
}

Outlook LakeSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  Outlook outlook;
  outlook.page = granule_;
  outlook.room = room_within(device_free);
  outlook.free_for_it = ledger_.held() + ledger_.spilled().now - used_;
  outlook.grows_from = free_in_one_range_.value_or(free_from(nullptr));
  outlook.in_one_range = std::max(outlook.grows_from + std::min(room(), down(outlook.room)), largest_free());
  if (options_.may_spill) {
    // A host that refused although its figure is large enough would not have given it.
    Bytes with_host = outlook.in_one_range + down(free_host_memory());
    for (const Part& part : spilled_chunks()) with_host = with_host + part.chunk->size;
    if (with_host < attempt.rounded) outlook.in_one_range = with_host;
  }
  const Bytes missing = up(attempt.rounded.excess_over(outlook.grows_from));
  outlook.need = need_of(up(attempt.rounded), missing, missing);
  outlook.advice =
      "there is enough memory, but some of it in parts of chunks between live buffers, which lake cannot move; close "
      "some buffers, or ask for less";
  return outlook;
}

}  // namespace memlake
