#include "policies/lake/lake_gatherer.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace memlake {

LakeBlock* LakeGatherer::carry_out(Plan plan, Lane& lane, Bytes size, Aliasing level, const Devices& users) {
  const bool leaves_first = level == Aliasing::none;
  // First of all: a wait may begin the whole request anew.
  if (leaves_first)
    for (const Part& part : plan.moved) waits_.clock.wait_or_refuse(part.run->freed());
  if (plan.place.hole == nullptr) {
    plan.place.range = &grower_.add_range(lane, hole_for(map_, size));
    plan.place.hole = plan.place.range->lowest;
  }
  // From high to low: cutting a run leaves its lower part where it is.
  std::ranges::sort(plan.moved, std::greater<>{}, [](const Part& part) { return part.chunk->address; });
  for (const Part& part : plan.moved) waits_.let_wait(lane.stream, *part.run);
  for (const Part& part : plan.borrowed) waits_.let_wait(lane.stream, *part.run);
  if (plan.odd) waits_.let_wait(lane.stream, *plan.odd->run);
  auto fresh = homes_.create(plan.fresh, lane.stream, plan.on);
  for (const Bytes spilled : plan.spilled) fresh.push_back(homes_.create_spilled(spilled));

  // The largest first, so that what is left over at the lower end is small; but memory of the first device at the
  // lowest addresses, memory of one device together, and memory of the host at the highest addresses.
  std::vector<LakeChunk*> chunks;
  for (const Part& part : plan.moved) chunks.push_back(part.chunk);
  std::ranges::stable_sort(chunks, std::greater<>{}, &LakeChunk::size);
  for (const auto& chunk : fresh) chunks.push_back(chunk.get());
  std::ranges::stable_sort(chunks, std::greater<>{}, &LakeChunk::device);

  std::size_t vacated = 0;
  Mapped mapped;
  try {
    for (; leaves_first && vacated < plan.moved.size(); ++vacated) {
      const Part& part = plan.moved[vacated];
      part.chunk->home->close();  // a chunk that cannot leave its addresses stays there, and has one mapping
      leave(part);
    }
    mapped = map_all(plan, chunks, users);
  } catch (const Error&) {
    for (std::size_t i = 0; i < vacated; ++i) forget(*plan.moved[i].chunk);
    throw;
  }

  // From here on nothing fails.
  cut_parts(plan, size, mapped, !leaves_first);
  moved_chunks_ += plan.moved.size();
  borrowed_pieces_ += mapped.pieces.size();
  Range& range = *plan.place.range;
  Address at = plan.place.hole->end();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    at = {at.value - chunks[i]->size.count};
    map_.settle(*chunks[i], range, at, std::move(mapped.homes[i]));
  }
  for (auto& chunk : fresh) homes_.add(map_.add_chunk(std::move(chunk)));

  LakeBlock* hole = plan.place.hole;
  if (hole->address < mapped.lowest) hole = map_.cut(hole, mapped.lowest - hole->address);
  // Another stream may use moved chunks when the lane's stream has passed the waits for them that are queued above. So
  // the bytes that are left over of them count as freed now, and not when the addresses were used last.
  if (!plan.moved.empty() && !leaves_first) hole->freed_at = waits_.clock.now(lane.stream);
  if (!mapped.pieces.empty()) return show(plan, hole, std::move(mapped), size);
  map_.watch.mapped({hole->address, hole->size}, lane.stream);
  hole->state = BlockState::free;
  if (std::ranges::any_of(chunks, &LakeChunk::is_spilled)) return take_mixed(plan, hole, size);
  // The free memory above, unless it is a part of the plan, may lie on another home.
  if (!plan.on || plan.place.run != nullptr) hole = map_.merge(hole);
  map_.index(hole);
  return map_.take_high(hole, size);
}

LakeGatherer::Mapped LakeGatherer::map_all(const Plan& plan, const std::vector<LakeChunk*>& chunks,
                                           const Devices& users) const {
  const Range& range = *plan.place.range;
  const Address top = plan.place.hole->end();
  Mapped mapped;
  Address at = top;
  const auto map_below = [&](const std::shared_ptr<PhysicalChunk>& chunk, Bytes size) {
    at = {at.value - size.count};
    return Mapping(range.reservation, at - range.range.begin, chunk, size);
  };
  for (const LakeChunk* chunk : chunks) mapped.homes.push_back(map_below(chunk->memory, chunk->size));
  mapped.bottom_of_chunks = at;
  for (const Part& part : plan.borrowed)
    mapped.pieces.push_back({part.chunk, nullptr, map_below(part.chunk->memory, part.end), part.begin});
  if (plan.odd)
    mapped.pieces.push_back({plan.odd->chunk, nullptr, map_below(plan.odd->chunk->memory, plan.odd->end), {0}});
  mapped.lowest = at;
  // The spilled chunks come first: all that a request has on the host is one run.
  Bytes on_host = homes_.is_on_host() ? top - at : Bytes{0};
  for (const LakeChunk* chunk : chunks)
    if (chunk->is_spilled) on_host = on_host + chunk->size;
  homes_.grant({at, top - at}, users, on_host);
  return mapped;
}

void LakeGatherer::cut_parts(const Plan& plan, Bytes size, Mapped& mapped, bool leaves_homes) {
  struct Cutting {
    Part part;
    View::Piece* piece;  // null for a chunk that moves
  };
  std::vector<Cutting> cuttings;
  for (std::size_t i = 0; i < plan.borrowed.size(); ++i) cuttings.push_back({plan.borrowed[i], &mapped.pieces[i]});
  if (plan.odd) {
    // Only the bytes that the block needs, at the end of the part.
    Bytes needed = size - plan.place.run_size() - (plan.place.hole->end() - mapped.bottom_of_chunks);
    for (const Part& part : plan.borrowed) needed = needed - part.size();
    Part part = *plan.odd;
    part.begin = part.end - std::min(part.size(), needed);
    mapped.pieces.back().begin = part.begin;
    cuttings.push_back({part, &mapped.pieces.back()});
  }
  if (leaves_homes)
    for (const Part& part : plan.moved) cuttings.push_back({part, nullptr});
  // From high to low: cutting a run leaves its lower part where it is.
  std::ranges::sort(cuttings, std::greater<>{}, [](const Cutting& cutting) { return cutting.part.place().begin; });
  for (const Cutting& cutting : cuttings) {
    if (cutting.piece == nullptr) {
      leave(cutting.part);
      continue;
    }
    LakeBlock* block = map_.isolate(cutting.part.run, cutting.part.place());
    block->state = BlockState::lent;
    map_.watch.unmapped({block->address, block->size}, block->stream);
    cutting.piece->lent = block;
    ++cutting.part.chunk->views;
  }
}

LakeBlock* LakeGatherer::show(const Plan& plan, LakeBlock* block, Mapped mapped, Bytes size) {
  auto view = std::make_unique<View>();
  view->top = mapped.bottom_of_chunks;
  view->since = map_.next_settling();
  const StreamId stream = block->stream;
  Bytes lent{0};
  bool is_mixed = false;
  for (const View::Piece& piece : mapped.pieces) {
    lent = lent + piece.lent->size;
    is_mixed |= piece.lent->stream != stream;
  }
  view->pieces = std::move(mapped.pieces);
  const Address bottom{view->top.value - lent.count};
  if (block->address < bottom) {
    view->dead = block;
    block = map_.cut(block, bottom - block->address);
    view->dead->state = BlockState::dead;
  }
  map_.watch.mapped({block->address, block->size}, stream);
  block->state = BlockState::live;  // it is about to be handed out
  if (LakeBlock* run = plan.place.run; run != nullptr) {
    map_.unindex(run);
    map_.swallow_above(block);
  }
  // Bytes that are too many can only be given back where they are the block's own.
  if (block->size > size && block->address + size >= view->top) {
    LakeBlock* rest = map_.cut(block, size);
    rest->state = BlockState::free;
    map_.offer(rest);
  }
  block->view = std::move(view);
  block->give_back = is_mixed ? GiveBack::to_several : GiveBack::with_calls;
  map_.count_used(block->size);
  return block;
}

LakeBlock* LakeGatherer::take_mixed(const Plan& plan, LakeBlock* block, Bytes size) {
  if (plan.place.run != nullptr) {
    map_.unindex(plan.place.run);
    map_.swallow_above(block);
  }
  if (block->size > size) {
    LakeBlock* low = block;
    block = map_.cut(low, low->size - size);
    block->state = BlockState::live;  // before what is left over looks for neighbours to merge with
    map_.offer(low);
  }
  map_.count_used(block->size);
  return block;
}

void LakeGatherer::end_view(LakeBlock* block) {
  const std::unique_ptr<View> view = std::move(block->view);
  const StreamId stream = static_cast<Range&>(*block->memory).lane.stream;
  block->give_back = GiveBack::cached;
  map_.watch.unmapped({block->address, view->top - block->address}, stream);
  Retired retired{{}, {}, nullptr, {stream, waits_.clock.now(stream)}};
  for (View::Piece& piece : view->pieces) {
    LakeBlock* lent = piece.lent;
    map_.watch.mapped({lent->address, lent->size}, lent->stream);
    lent->state = BlockState::free;
    lent->freed_at = waits_.clock.now(lent->stream);
    map_.offer(lent);
    retired.mappings.push_back(std::move(piece.mapping));
    retired.viewed.push_back(piece.chunk);
  }
  if (block->end() > view->top) {
    LakeBlock* own = map_.cut(block, view->top - block->address);
    own->state = BlockState::free;
    own->freed_at = waits_.clock.now(stream);
    map_.offer(own);
  }
  block->state = BlockState::dead;
  if (view->dead != nullptr) {
    map_.swallow_above(view->dead);
    block = view->dead;
  }
  retired.dead = block;
  retired_.push_back(std::move(retired));
  reap();
}

void LakeGatherer::leave(const Part& whole) {
  LakeChunk& chunk = *whole.chunk;
  LakeBlock* old = map_.unsettle(whole);
  map_.watch.unmapped({old->address, old->size}, old->stream);
  Retired& retired = retired_.emplace_back(Retired{{}, {}, old, {old->stream, old->freed_at}});
  retired.mappings.push_back(std::move(*chunk.home));
  chunk.home.reset();
}

void LakeGatherer::vacate(const Part& whole) {
  leave(whole);
  retired_.back().mappings.clear();
}

void LakeGatherer::forget(LakeChunk& chunk) {
  homes_.subtract(chunk);
  map_.drop_chunk(chunk);
}

void LakeGatherer::release(const Part& whole) {
  vacate(whole);
  forget(*whole.chunk);
}

void LakeGatherer::reap() {
  for (std::size_t i = 0; i < retired_.size();) {
    Retired& retired = retired_[i];
    // The caller has a block in hand that an error would lose. A driver that cannot answer now is asked again later.
    bool is_done = false;
    try {
      is_done = waits_.clock.has_passed(retired.freed);
    } catch (const Error&) {
    }
    if (!is_done) {
      ++i;
      continue;
    }
    retired.mappings.clear();  // unmaps
    for (LakeChunk* chunk : retired.viewed) --chunk->views;
    retired.dead->state = BlockState::unmapped;
    map_.merge(retired.dead);
    std::swap(retired, retired_.back());
    retired_.pop_back();
  }
}

void LakeGatherer::wait_for_old_mappings() {
  for (const Retired& retired : retired_) waits_.clock.wait(retired.freed);
}

bool LakeGatherer::wait_for_free_memory() {
  bool has_waited = false;
  const auto wait = [&](const StreamClock::Freed& freed) {
    has_waited |= !waits_.clock.has_passed(freed) && waits_.clock.wait(freed);
  };
  for (const Retired& retired : retired_) wait(retired.freed);
  for (const Part& part : whole_chunks(map_)) wait(part.run->freed());
  // No stream can wait on the device for the free memory of these.
  map_.lanes().for_each([&](const Lane& lane) {
    if (waits_.clock.can_ask(lane.stream)) return;
    for (const FreeIndex* index : {&lane.free, &lane.spilled})
      for (const Block* run = index->last(); run != nullptr; run = index->before(run))
        wait(static_cast<const LakeBlock*>(run)->freed());
  });
  if (has_waited) reap();
  return has_waited;
}

}  // namespace memlake
