#pragma once

// RecordedRules: a policy that stands in front of another one while a record is replayed. It lays out the memory that
// the record begins with; then the other policy decides, and this one notes each segment that comes and goes, in the
// record's addresses.

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policies/segments/segment_rules.hpp"
#include "replay/record.hpp"

namespace memlake {

/// Which of two free blocks of one size is taken.
enum class TieBreak {
  age,      ///< the one in the older segment: torch 2.13
  address,  ///< the one at the lower address, which here is the record's: versions before it
};

/// What a RecordedRules is told and what it notes. It outlives the policy, which belongs to its pool.
class RecordedPlaces {
 public:
  RecordedPlaces(const std::vector<RecordedEvent>& events, TieBreak tie_break)
      : recorded_(events), tie_break_(tie_break) {}

  /// The block that the next allocation makes, whatever was asked for; null once the layout is there.
  struct Laid {
    const RecordedSegment* segment;
    const RecordedBlock* block;
    Block* rest;  ///< of the segment; null for its first block
  };
  const Laid* laid = nullptr;
  std::uint64_t row = 0;  ///< of the trace that is replayed now

  [[nodiscard]] Address address_of(const Block& block) const;
  [[nodiscard]] const std::vector<RecordedEvent>& events() const { return noted_; }

 private:
  friend class RecordedRules;

  /// Where the record has its next new memory of this kind, from this row on; behind everything if it has none left.
  Address next_place(RecordedEvent::Kind kind, Bytes size);
  void begin_segment(Step& step, Address base);
  /// What the last step gave is known now: the first look at a new segment.
  void end_segment(const Climb& climb);
  void note(RecordedEvent::Kind kind, AddressRange range, StreamId stream);
  void note_release(const std::vector<Block*>& victims);

  const std::vector<RecordedEvent>& recorded_;
  TieBreak tie_break_;
  std::size_t next_event_ = 0;
  std::uint64_t invented_ = std::uint64_t{1} << 62;
  std::optional<Address> begun_;                             // base of the segment that is being made
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
