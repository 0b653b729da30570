#include "replay/recorded_rules.hpp"

#include "policies/segments/segments.hpp"

namespace memlake {

Address RecordedPlaces::address_of(const Block& block) const {
  return bases_.at(block.memory) + (block.address - block.memory->range.begin);
}

Address RecordedPlaces::next_place(RecordedEvent::Kind kind, Bytes size) {
  while (next_event_ < recorded_.size()) {
    const RecordedEvent& event = recorded_[next_event_++];
    if (event.kind == kind && event.row >= row) return event.range.begin;
  }
  const Address place{invented_};
  invented_ += size.count;
  return place;
}

void RecordedPlaces::begin_segment(Step& step, Address base) {
  begun_ = base;
  if (tie_break_ == TieBreak::address) step.serial = base.value;
}

void RecordedPlaces::end_segment(const Climb& climb) {
  if (begun_ && !climb.attempt.has_failed) bases_[climb.block->memory] = *begun_;
  begun_.reset();
}

void RecordedPlaces::note(RecordedEvent::Kind kind, AddressRange range, StreamId stream) {
  noted_.push_back({row, kind, range, stream});
}

void RecordedPlaces::note_release(const std::vector<Block*>& victims) {
  for (const Block* block : victims) {
    const Address address = address_of(*block);
    if (!block->memory->is_expandable()) {
      note(RecordedEvent::Kind::free, {address, block->size}, block->stream);
      continue;
    }
    const auto& segment = static_cast<const ExpandableSegment&>(*block->memory);
    const AddressRange pages = segment.whole_pages({block->address, block->size});
    if (pages.size.count > 0)
      note(RecordedEvent::Kind::unmap, {address + (pages.begin - block->address), pages.size}, block->stream);
  }
}

Bytes RecordedRules::round(Bytes requested) const {
  return places_.laid != nullptr ? places_.laid->block->size : rules_->round(requested);
}

bool RecordedRules::is_small(Bytes rounded) const {
  return places_.laid != nullptr ? places_.laid->segment->is_small : rules_->is_small(rounded);
}

Block* RecordedRules::find(Bytes rounded, StreamId stream, BlockGroup& group) const {
  return places_.laid != nullptr ? places_.laid->rest : rules_->find(rounded, stream, group);
}

bool RecordedRules::splits(const Block& block, Bytes rounded) const {
  return places_.laid != nullptr ? block.size > rounded : rules_->splits(block, rounded);
}

void RecordedRules::choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const {
  rules_->choose_everything(blocks, victims);
  places_.note_release(victims);
}

Ladder RecordedRules::ladder() const { return rules_->ladder(); }

Step RecordedRules::lay_out(const Climb& climb) const {
  if (climb.attempt.has_failed) return {.kind = Step::Kind::next_rung};
  if (climb.block != nullptr) return {.kind = Step::Kind::take, .block = climb.block};
  Step step{.kind = Step::Kind::new_segment, .size = places_.laid->segment->range.size};
  places_.begin_segment(step, places_.laid->segment->range.begin);
  return step;
}

Step RecordedRules::next(Climb& climb, const SegmentView& view) const {
  places_.end_segment(climb);
  if (places_.laid != nullptr) return lay_out(climb);
  if (climb.attempt.has_failed && !places_.noted_.empty() && places_.noted_.back().is_growth())
    places_.noted_.pop_back();
  const StreamId stream = climb.attempt.request.stream;
  Step step = rules_->next(climb, view);
  switch (step.kind) {
    case Step::Kind::new_segment: {
      const Address base = places_.next_place(RecordedEvent::Kind::alloc, step.size);
      places_.begin_segment(step, base);
      places_.note(RecordedEvent::Kind::alloc, {base, step.size}, stream);
      break;
    }
    case Step::Kind::new_expandable:
      places_.begin_segment(step, places_.next_place(RecordedEvent::Kind::map, step.size));
      break;
    case Step::Kind::map: {
      const Bytes page = step.block->memory->page;
      const Bytes mapped = page * ((step.size.count + page.count - 1) / page.count);
      places_.note(RecordedEvent::Kind::map, {places_.address_of(*step.block), mapped}, stream);
      break;
    }
    case Step::Kind::release:
      places_.note_release(climb.victims);
      break;
    case Step::Kind::take:
    case Step::Kind::next_rung:
      break;
  }
  return step;
}

}  // namespace memlake
