#pragma once

// RecordedRules: wraps the rules of a policy while a record is replayed. It first creates the layout with which the
// record begins. Then the wrapped rules decide, and RecordedRules notes each segment that is created or released, in
// the record's addresses.

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policies/segments/segment_rules.hpp"
#include "replay/record.hpp"

namespace memlake {

/// Which of two free blocks of one size is used first.
enum class TieBreak {
  age,      ///< the one in the older segment: torch 2.13
  address,  ///< the one at the lower address of the record: versions before 2.13
};

/// The input and the notes of a RecordedRules. It outlives the rules, which belong to the pool.
class RecordedPlaces {
 public:
  RecordedPlaces(const std::vector<RecordedEvent>& events, TieBreak tie_break)
      : recorded_(events), tie_break_(tie_break) {}

  /// The block that the next allocation creates, whatever the request is; null after the layout is complete.
  struct Laid {
    const RecordedSegment* segment;
    const RecordedBlock* block;
    Block* rest;  ///< the rest of the segment; null for its first block
  };
  const Laid* laid = nullptr;
  std::uint64_t row = 0;  ///< of the trace that is replayed now

  [[nodiscard]] Address address_of(const Block& block) const;
  [[nodiscard]] const std::vector<RecordedEvent>& events() const { return noted_; }

 private:
  friend class RecordedRules;

  /// The address of the record's next new memory of this kind, from this row on. If the record has none left: an
  /// address behind all others.
  Address next_place(RecordedEvent::Kind kind, Bytes size);
  void begin_segment(Step& step, Address base);
  /// Called after a step: if it created a segment, stores the segment's base.
  void end_segment(const Climb& climb);
  void note(RecordedEvent::Kind kind, AddressRange range, StreamId stream);
  void note_release(const std::vector<Block*>& victims);

  const std::vector<RecordedEvent>& recorded_;
  TieBreak tie_break_;
  std::size_t next_event_ = 0;
  std::uint64_t invented_ = std::uint64_t{1} << 62;
  std::optional<Address> begun_;                             // base of the segment that is being created
  std::unordered_map<const SegmentMemory*, Address> bases_;  // in the record's addresses
  std::vector<RecordedEvent> noted_;
};

class RecordedRules final : public SegmentRules {
 public:
  RecordedRules(std::unique_ptr<SegmentRules> rules, RecordedPlaces& places)
      : rules_(std::move(rules)), places_(places) {}

  [[nodiscard]] Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const override {
    return rules_->growth(attempt, view, device_free);
  }
  [[nodiscard]] Bytes round(Bytes requested) const override;
  [[nodiscard]] bool is_small(Bytes rounded) const override;
  [[nodiscard]] Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const override;
  [[nodiscard]] Ladder ladder() const override;
  Step next(Climb& climb, const SegmentView& view) const override;
  [[nodiscard]] bool splits(const Block& block, Bytes rounded) const override;
  [[nodiscard]] bool keeps_freed_memory() const override { return rules_->keeps_freed_memory(); }
  void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const override;

 private:
  [[nodiscard]] Step lay_out(const Climb& climb) const;

  std::unique_ptr<SegmentRules> rules_;
  RecordedPlaces& places_;
};

}  // namespace memlake
