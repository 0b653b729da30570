#include "replay/recorded_replay.hpp"

#include <limits>
#include <map>
#include <unordered_map>

#include "base/error.hpp"

namespace memlake {

namespace {

class RecordPlayer {
 public:
  RecordPlayer(const TraceColumns& trace, const Record& record, TieBreak tie_break, std::shared_ptr<Device> device,
               std::unique_ptr<SegmentRules> policy)
      : trace_(trace),
        record_(record),
        places_(record.events, tie_break),
        events_(EventMode::recorded, 0),
        pool_(std::move(device), std::make_unique<RecordedRules>(std::move(policy), places_), events_,
              Bytes{std::numeric_limits<std::uint64_t>::max()}) {}

  RecordedOutcome play() {
    outcome_.addresses.resize(trace_.op.size());
    for (const RecordedSegment& segment : record_.initial) lay_out(segment);
    for (std::size_t row = record_.first_row; row < trace_.op.size() && !outcome_.failed_row; ++row) {
      release_before(row);
      play(row);
    }
    release_before(trace_.op.size());
    outcome_.events = places_.events();
    outcome_.last = segments();
    return std::move(outcome_);
  }

 private:
  /// Allocates every block of the segment in order, then frees those that are free.
  void lay_out(const RecordedSegment& segment) {
    std::vector<Block*> free;
    RecordedPlaces::Laid laid{&segment, nullptr, nullptr};
    places_.laid = &laid;
    for (const RecordedBlock& recorded : segment.blocks) {
      laid.block = &recorded;
      Block* block = pool_.allocate(recorded.requested, segment.stream);
      if (block == nullptr)
        throw Error(ErrorKind::config, "the segments that the record begins with do not fit on the device");
      laid.rest = block->next;
      if (recorded.state == BlockState::free) {
        free.push_back(block);
      } else {
        hold(recorded.id, block);
      }
    }
    places_.laid = nullptr;
    for (Block* block : free) pool_.free(block);
  }

  /// The record says when memory was given back; the policy says which.
  void release_before(std::size_t row) {
    places_.row = row;
    bool is_due = false;
    for (; next_event_ < record_.events.size() && record_.events[next_event_].row <= row; ++next_event_)
      is_due |= !record_.events[next_event_].is_growth();
    if (is_due) pool_.release_cached();
  }

  void play(std::size_t row) {
    const std::uint32_t id = trace_.id[row];
    events_.set_row(row);
    switch (trace_.op[row]) {
      case TraceColumns::allocate: {
        if (trace_.bytes[row] == 0) return;
        Block* block = pool_.allocate({trace_.bytes[row]}, trace_.stream[row]);
        if (block == nullptr) {
          outcome_.failed_row = row;
          return;
        }
        outcome_.addresses[row] = places_.address_of(*block).value;
        hold(id, block);
        return;
      }
      case TraceColumns::free:
        if (const auto held = live_.find(id); held != live_.end()) {
          events_.freeing(id);
          pool_.free(held->second);
          live_.erase(held);
        }
        return;
      case TraceColumns::record_stream:
        if (const auto held = live_.find(id); held != live_.end()) pool_.record_use(held->second, trace_.stream[row]);
        return;
      case TraceColumns::event_done:
        events_.done(id);
        return;
      case TraceColumns::synchronise:
        events_.all_done();
        return;
      case TraceColumns::empty_cache:
        pool_.release_cached();
        return;
      default:
        return;
    }
  }

  void hold(std::uint32_t id, Block* block) {
    live_[id] = block;
    id_of_[block] = id;
  }

  /// All memory of the pool, by address.
  [[nodiscard]] std::vector<RecordedSegment> segments() const {
    std::map<Address, const Block*> heads;
    pool_.spaces().policy().for_each([&](const Block& block) {
      if (block.previous == nullptr) heads.emplace(places_.address_of(block), &block);
    });
    std::vector<RecordedSegment> all;
    for (const auto& [address, head] : heads) add_parts(head, all);
    return all;
  }

  /// The mapped parts of one segment.
  void add_parts(const Block* head, std::vector<RecordedSegment>& all) const {
    bool is_new = true;
    for (const Block* block = head; block != nullptr; block = block->next) {
      if (block->state == BlockState::unmapped) {
        is_new = true;
        continue;
      }
      if (is_new)
        all.push_back({.range = {places_.address_of(*block), {0}},
                       .stream = block->stream,
                       .is_small = block->group->is_small,
                       .is_expandable = block->memory->is_expandable()});
      is_new = false;
      const bool is_free = block->state == BlockState::free;
      RecordedSegment& segment = all.back();
      segment.range.size = segment.range.size + block->size;
      segment.blocks.push_back({.size = block->size,
                                .requested = is_free ? Bytes{0} : block->requested,
                                .state = block->state,
                                .id = is_free ? RecordedBlock::kNoId : id_of_.at(block)});
    }
  }

  const TraceColumns& trace_;
  const Record& record_;
  RecordedPlaces places_;
  TraceEvents events_;
  Pool pool_;
  std::size_t next_event_ = 0;
  std::unordered_map<std::uint32_t, Block*> live_;
  std::unordered_map<const Block*, std::uint32_t> id_of_;  // of the last one in that block
  RecordedOutcome outcome_;
};

}  // namespace

RecordedOutcome replay_record(const TraceColumns& trace, const Record& record, TieBreak tie_break,
                              std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy) {
  return RecordPlayer(trace, record, tie_break, std::move(device), std::move(policy)).play();
}

}  // namespace memlake
