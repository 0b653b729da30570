// The part of LakeSpace that acts. All driver calls of a plan come before the first change of a block; until then the
// new mappings are owners on the stack, so a call that fails undoes them. Where a device cannot map a chunk twice, old
// places must be left first; what then cannot be mapped anew is given back to the driver, which loses nothing that is
// in use.

#include <algorithm>

#include "base/error.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/lake/lake_tuning.hpp"
#include "vmm/access.hpp"

namespace memlake {

namespace {

/// New mappings, one below the other.
class Downwards {
 public:
  Downwards(Range& range, Address from) : range_(range), at_(from) {}

  /// The first `size` bytes of a chunk, below what is there.
  Mapping map(const std::shared_ptr<PhysicalChunk>& chunk, Bytes size) {
    const Address address{at_.value - size.count};
    Mapping mapping(range_.reservation, address - range_.range.begin, chunk, size);
    at_ = address;
    return mapping;
  }
  [[nodiscard]] Address at() const { return at_; }

 private:
  Range& range_;
  Address at_;
};

}  // namespace

Range& LakeSpace::add_range(Lane& lane, Bytes at_least) {
  // The first large range has room for the devices' memory six times, so that it seldom has to look for holes; others
  // begin smaller. Addresses are cheap, but not free: eight times is what a lake may use.
  Bytes usual{device_total_.count / 16};
  if (!lane.is_small()) {
    bool is_first = true;
    for_each_lane([&](const Lane& other) { is_first &= other.is_small() || other.ranges.empty(); });
    usual = is_first ? device_total_ * 6 : Bytes{device_total_.count / 4};
  }
  auto reservation = std::make_shared<Reservation>(device_, std::max(up(at_least), up(usual)), Bytes{0}, Address{0});
  auto range = std::make_unique<Range>(lane, std::move(reservation), granule_);
  range->serial = ranges_made_++;
  range->lowest = range->highest = make_block(*range, range->range, BlockState::unmapped);
  lane.ranges.push_back(std::move(range));
  return *lane.ranges.back();
}

/// The device for the next chunk, by number; `made` is what this request has on each already.
std::size_t LakeSpace::next_home(const std::vector<Bytes>& made, StreamId stream) const {
  const auto has_room = [&](std::size_t i) { return ledger_.held_on(i) + made[i] + granule_ <= homes_[i].most; };
  const std::size_t last = homes_.size() - 1;
  std::size_t best = last;
  if (options_.placement == Placement::near) {
    best = std::min(events_.device_of(stream), last);
    if (has_room(best)) return best;
  }
  if (options_.placement == Placement::balance) {
    const auto share = [&](std::size_t i) {
      return static_cast<double>((ledger_.held_on(i) + made[i]).count) / static_cast<double>(homes_[i].total.count);
    };
    for (std::size_t i = 0; i <= last; ++i)
      if (has_room(i) && (!has_room(best) || share(i) < share(best))) best = i;
    return best;
  }
  for (std::size_t i = 0; i <= last; ++i)
    if (has_room(i)) return i;
  return last;
}

std::vector<LakeSpace::Making> LakeSpace::assign(const std::vector<Bytes>& sizes, StreamId stream) const {
  std::vector<Making> makings;
  std::vector<Bytes> made;
  for (std::size_t i = 0; i < homes_.size(); ++i) made.push_back(ledger_.promised_on(i));
  for (Bytes left : sizes)
    while (left.count > 0) {
      const std::size_t on = next_home(made, stream);
      const Bytes taken = ledger_.held_on(on) + made[on];
      Bytes size = left;
      if (homes_.size() > 1 && taken + granule_ <= homes_[on].most)
        size = std::min(size, down(homes_[on].most - taken));
      makings.push_back({size, on});
      made[on] = made[on] + size;
      left = left - size;
    }
  return makings;
}

std::unique_ptr<LakeChunk> LakeSpace::create_one(const Making& making) const {
  if (options_.location != Location::device) return create_on_host(making.size);
  auto chunk = std::make_unique<LakeChunk>();
  chunk->memory = std::make_shared<PhysicalChunk>(PhysicalChunk::create(devices_[making.on], making.size, false));
  chunk->size = making.size;
  chunk->device = making.on;
  return chunk;
}

std::vector<std::unique_ptr<LakeChunk>> LakeSpace::create(const std::vector<Bytes>& sizes, StreamId stream) {
  std::vector<std::unique_ptr<LakeChunk>> chunks;
  for (const Making& making : assign(sizes, stream)) {
    try {
      chunks.push_back(create_one(making));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) note_shortage(making.on);
      throw;
    }
  }
  return chunks;
}

/// Somebody else has what the device should still have. Until something is given back, this is all there is.
void LakeSpace::note_shortage(std::size_t home) { homes_[home].most = taken_on(home); }

void LakeSpace::keep(std::vector<std::unique_ptr<LakeChunk>>& chunks) {
  for (auto& chunk : chunks) {
    if (chunk->is_spilled) {
      ledger_.spill(chunk->size);
    } else {
      ledger_.add(chunk->size, home_of(*chunk));
    }
    largest_chunk_ = std::max(largest_chunk_, chunk->size);
    chunk->place = chunks_.size();
    chunks_.push_back(std::move(chunk));
  }
}

/// Gives the chunk's memory back to the driver. pre: it is mapped nowhere.
void LakeSpace::forget(LakeChunk* chunk) {
  if (chunk->is_spilled) {
    ledger_.unspill(chunk->size);
  } else {
    ledger_.subtract(chunk->size, home_of(*chunk));
    Home& home = homes_[home_of(*chunk)];
    home.most = home.total;
  }
  const std::size_t place = chunk->place;
  std::swap(chunks_[place], chunks_.back());
  chunks_[place]->place = place;
  chunks_.pop_back();
}

void LakeSpace::set_access(AddressRange range, std::span<const std::shared_ptr<Device>> users, Bytes on_host) const {
  if (range.size.count == 0) return;
  memlake::set_access(device_->driver(), range, users, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (on_host.count > 0)
    set_host_access(device_->driver(), {{range.end().value - on_host.count}, on_host}, host_,
                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void LakeSpace::settle_in(LakeChunk& chunk, Range& range, Address address, Mapping mapping) {
  chunk.home.reset();
  chunk.home.emplace(std::move(mapping));
  chunk.address = address;
  chunk.range = &range;
  chunk.since = ++settlings_;
  range.home = range.home + chunk.size;
  range.set_chunk(chunk.at(), &chunk);
}

void LakeSpace::leave(const Part& whole) {
  LakeChunk& chunk = *whole.chunk;
  Range& range = *chunk.range;
  const StreamId stream = range.lane.stream;
  LakeBlock* old = isolate(whole.run, chunk.at());
  range.set_chunk(chunk.at(), nullptr);
  range.home = range.home - chunk.size;
  chunk.range = nullptr;
  old->state = BlockState::dead;
  old->is_spilled = false;
  Retired& retired = retired_.emplace_back(Retired{{}, {}, old, {stream, old->freed_at}});
  retired.mappings.push_back(std::move(*chunk.home));
  chunk.home.reset();
}

void LakeSpace::reap() {
  for (std::size_t i = 0; i < retired_.size();) {
    Retired& retired = retired_[i];
    // Whoever reaps has something in hand that an error would lose; a driver that cannot answer now is asked again.
    bool is_done = false;
    try {
      is_done = clock_.has_passed(retired.freed);
    } catch (const Error&) {
    }
    if (!is_done) {
      ++i;
      continue;
    }
    retired.mappings.clear();  // unmaps
    for (LakeChunk* chunk : retired.viewed) --chunk->views;
    retired.dead->state = BlockState::unmapped;
    merge(retired.dead);
    std::swap(retired, retired_.back());
    retired_.pop_back();
  }
}

void LakeSpace::let_wait(StreamId waiter, const LakeBlock& run) {
  switch (clock_.reuse(waiter, run.freed(), rules_)) {
    case StreamClock::Reuse::own:
    case StreamClock::Reuse::seen:
      return;
    case StreamClock::Reuse::ordered:
      ++counters_.reused_by_event;
      return;
    case StreamClock::Reuse::passed:
      ++counters_.reused_opportunistically;
      return;
    case StreamClock::Reuse::none:
      break;
  }
  if (rules_.allow_internal_dependencies) {
    clock_.let_wait(waiter, run.stream);
    ++counters_.stream_waits;
  } else {
    clock_.wait(run.freed());
  }
}

Block* LakeSpace::grow(Lane& lane, Bytes size) {
  const Place place = place_for(lane, size);
  const Bytes exact = size - (place.run == nullptr ? Bytes{0} : place.run->size);
  const Bytes need = up(exact);
  if (need > room()) return nullptr;
  // A neighbour gets the rest of the last granule, so that granule is a chunk of its own: the neighbour must not keep
  // the chunks of this block in their places.
  const bool shares_last = !lane.is_small() && !exact.is_multiple_of(granule_) && need > granule_;
  std::vector<Bytes> sizes = chunk_sizes(shares_last ? need - granule_ : need, size);
  if (shares_last) sizes.push_back(granule_);
  return grow_outside(place, sizes, size);
}

void LakeSpace::vacate(const Part& whole) {
  leave(whole);
  retired_.back().mappings.clear();
}

void LakeSpace::give_up_recreated(Plan& plan) {
  const auto gone = std::ranges::find(plan.moved, plan.recreated, &Part::chunk);
  const Part left = *gone;
  plan.moved.erase(gone);
  vacate(left);  // its stream has passed, or it would not have been chosen
  // What is above it in the same run is a block of its own now.
  LakeBlock* rest = retired_.back().dead->above();
  const auto follow = [&](Part& part) {
    if (part.run == left.run && part.chunk->address > left.chunk->address) part.run = rest;
  };
  std::ranges::for_each(plan.moved, follow);
  std::ranges::for_each(plan.borrowed, follow);
  if (plan.odd) follow(*plan.odd);
  forget(plan.recreated);
  ++counters_.recreated_chunks;
}

Block* LakeSpace::carry_out(Plan& plan, Bytes size) {
  Range& range = *plan.place.range;
  const StreamId stream = range.lane.stream;
  const Address top = plan.place.hole->end();
  // From high to low: cutting a run leaves its lower part where it is.
  const auto by_address = [](const Part& part) { return part.chunk->address; };
  std::ranges::sort(plan.moved, std::greater<>{}, by_address);

  for (const Part& part : plan.moved) let_wait(stream, *part.run);
  for (const Part& part : plan.borrowed) let_wait(stream, *part.run);
  if (plan.odd) let_wait(stream, *plan.odd->run);
  if (plan.recreated != nullptr) give_up_recreated(plan);
  auto fresh = create(plan.fresh, stream);
  for (const Bytes spilled : plan.spilled) {
    fresh.push_back(create_on_host(spilled));
    fresh.back()->is_spilled = true;
  }

  // The largest first, so that what is left over at the lower end is small; but memory of the first device at the
  // lowest addresses, that of one device together, and that of the host at the highest.
  std::vector<LakeChunk*> chunks;
  for (const Part& part : plan.moved) chunks.push_back(part.chunk);
  std::ranges::stable_sort(chunks, std::greater<>{}, &LakeChunk::size);
  for (const auto& chunk : fresh) chunks.push_back(chunk.get());
  std::ranges::stable_sort(chunks, std::greater<>{}, &LakeChunk::device);

  if (!options_.may_alias) {
    // Chunks leave their places before they are mapped anew, so the host waits for their streams.
    for (const Part& part : plan.moved) clock_.wait(part.run->freed());
    for (const Part& part : plan.moved) vacate(part);
  }
  Downwards down_from(range, top);
  std::vector<Mapping> mappings;
  std::vector<View::Piece> pieces;
  Address bottom_of_chunks = top;
  try {
    for (const LakeChunk* chunk : chunks) mappings.push_back(down_from.map(chunk->memory, chunk->size));
    bottom_of_chunks = down_from.at();
    for (const Part& part : plan.borrowed)
      pieces.push_back({part.chunk, nullptr, down_from.map(part.chunk->memory, part.end), part.begin});
    if (plan.odd)
      pieces.push_back({plan.odd->chunk, nullptr, down_from.map(plan.odd->chunk->memory, plan.odd->end), {0}});
    // What is spilled comes first: all that a request has on the host is one run.
    Bytes on_host = options_.location == Location::device ? Bytes{0} : top - down_from.at();
    for (const LakeChunk* chunk : chunks)
      if (chunk->is_spilled) on_host = on_host + chunk->size;
    set_access({down_from.at(), top - down_from.at()}, accessors(), on_host);
  } catch (const Error&) {
    if (!options_.may_alias) {
      mappings.clear();
      for (const Part& part : plan.moved) forget(part.chunk);
    }
    throw;
  }

  // From here on nothing fails. First what is lent, then what moves: both cut runs, each from high to low.
  std::vector<Part> lent = plan.borrowed;
  if (plan.odd) {
    const Bytes own = (plan.place.run == nullptr ? Bytes{0} : plan.place.run->size) + (top - bottom_of_chunks);
    Bytes borrowed{0};
    for (const Part& part : plan.borrowed) borrowed = borrowed + part.size();
    const Bytes odd_bytes = std::min(plan.odd->size(), size - own - borrowed);
    lent.push_back({plan.odd->run, plan.odd->chunk, plan.odd->end - odd_bytes, plan.odd->end});
    pieces.back().begin = lent.back().begin;
  }
  struct Cutting {
    Part part;
    View::Piece* piece;  // null for a chunk that moves
  };
  std::vector<Cutting> cuttings;
  for (std::size_t i = 0; i < lent.size(); ++i) cuttings.push_back({lent[i], &pieces[i]});
  if (options_.may_alias)
    for (const Part& part : plan.moved) cuttings.push_back({part, nullptr});
  std::ranges::sort(cuttings, std::greater<>{}, [](const Cutting& c) { return c.part.place().begin; });
  for (const Cutting& cutting : cuttings) {
    if (cutting.piece == nullptr) {
      leave(cutting.part);
      continue;
    }
    LakeBlock* block = isolate(cutting.part.run, cutting.part.place());
    block->state = BlockState::lent;
    cutting.piece->lent = block;
    ++cutting.part.chunk->views;
  }
  counters_.moved_chunks += plan.moved.size();
  counters_.borrowed_pieces += pieces.size();

  Address at = top;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    at = {at.value - chunks[i]->size.count};
    settle_in(*chunks[i], range, at, std::move(mappings[i]));
  }
  keep(fresh);

  LakeBlock* hole = plan.place.hole;
  const Address lowest = down_from.at();
  if (hole->address < lowest) hole = cut(hole, lowest - hole->address);
  if (pieces.empty()) {
    hole->state = BlockState::free;
    if (std::ranges::any_of(chunks, &LakeChunk::is_spilled)) return take_mixed(plan, hole, size);
    hole = merge(hole);
    index(hole);
    return take_high(hole, size);
  }
  return show(plan, hole, bottom_of_chunks, std::move(pieces), size);
}

/// The block of a plan with borrowed parts: those at its lower end, its own memory above them.
Block* LakeSpace::show(const Plan& plan, LakeBlock* block, Address top, std::vector<View::Piece> pieces, Bytes size) {
  auto view = std::make_unique<View>();
  view->top = top;
  view->since = ++settlings_;
  const StreamId stream = block->stream;
  Bytes lent{0};
  bool is_mixed = false;
  for (const View::Piece& piece : pieces) {
    lent = lent + piece.lent->size;
    is_mixed |= piece.lent->stream != stream;
  }
  view->pieces = std::move(pieces);
  const Address bottom{top.value - lent.count};
  if (block->address < bottom) {
    view->dead = block;
    block = cut(block, bottom - block->address);
    view->dead->state = BlockState::dead;
  }
  block->state = BlockState::live;  // it is about to be handed out
  if (LakeBlock* run = plan.place.run; run != nullptr) {
    unindex(run);
    swallow_above(block);
  }
  // What is too much can only be given back where it is the block's own.
  if (block->size > size && block->address + size >= top) {
    LakeBlock* rest = cut(block, size);
    rest->state = BlockState::free;
    offer(rest);
  }
  block->view = std::move(view);
  block->give_back = is_mixed ? GiveBack::to_several : GiveBack::with_calls;
  used_ = used_ + block->size;
  return block;
}

void LakeSpace::end_view(LakeBlock* block) {
  const std::unique_ptr<View> view = std::move(block->view);
  const StreamId stream = static_cast<Range&>(*block->memory).lane.stream;
  block->give_back = GiveBack::cached;
  Retired retired{{}, {}, nullptr, {stream, clock_.now(stream)}};
  for (View::Piece& piece : view->pieces) {
    LakeBlock* lent = piece.lent;
    lent->state = BlockState::free;
    lent->freed_at = clock_.now(lent->stream);
    offer(lent);
    retired.mappings.push_back(std::move(piece.mapping));
    retired.viewed.push_back(piece.chunk);
  }
  if (block->end() > view->top) {
    LakeBlock* own = cut(block, view->top - block->address);
    own->state = BlockState::free;
    own->freed_at = clock_.now(stream);
    offer(own);
  }
  block->state = BlockState::dead;
  if (view->dead != nullptr) {
    swallow_above(view->dead);
    block = view->dead;
  }
  retired.dead = block;
  retired_.push_back(std::move(retired));
  reap();
}

void LakeSpace::release_everything() {
  for (const Retired& retired : retired_) clock_.wait(retired.freed);
  for (const auto& wholes : {spilled_chunks(), whole_chunks(nullptr)})
    for (const Part& part : wholes) clock_.wait(part.run->freed());
  trim({0});
}

void LakeSpace::trim(Bytes keep) {
  for (std::size_t stream = 0; stream < lanes_.size(); ++stream)
    if (lanes_[stream][0] != nullptr || lanes_[stream][1] != nullptr) clock_.look(static_cast<StreamId>(stream));
  reap();
  // By range, not by address alone: where the driver put a range must not decide what goes. From high to low, as
  // vacate() leaves the lower part of a run where it is. What was spilled goes first.
  for (std::vector<Part> wholes : {spilled_chunks(), whole_chunks(nullptr)}) {
    std::ranges::sort(wholes, [](const Part& a, const Part& b) {
      const bool is_same = a.chunk->range == b.chunk->range;
      return is_same ? a.chunk->address > b.chunk->address : a.chunk->range->serial < b.chunk->range->serial;
    });
    for (const Part& part : wholes) {
      const Bytes all = ledger_.held() + ledger_.spilled().now;
      if (all <= keep) break;
      // What a view still shows is not free to go, although the view is over.
      if (part.chunk->size > all - keep || part.chunk->views > 0) continue;
      if (!clock_.has_passed(part.run->freed())) continue;
      vacate(part);
      forget(part.chunk);
    }
  }
  reap();
  for (auto& lanes : lanes_)
    for (auto& lane : lanes)
      if (lane != nullptr) release_bare_ranges(*lane);
}

void LakeSpace::release_bare_ranges(Lane& lane) {
  std::erase_if(lane.ranges, [this](const std::unique_ptr<Range>& range) {
    const bool is_bare = range->lowest == range->highest && range->lowest->state == BlockState::unmapped;
    if (is_bare) destroy(range->lowest);
    return is_bare;
  });
}

}  // namespace memlake
