#pragma once

// SegmentSpace: the space of policies that allocate blocks from segments and decide step by step. It asks the policy's
// rules for the next step and executes it. A step for which the driver has no memory changes nothing.

#include <memory>
#include <string>
#include <vector>

#include "blocks/lone_addresses.hpp"
#include "policies/segments/segment_rules.hpp"
#include "policies/segments/segments.hpp"
#include "policies/space.hpp"

namespace memlake {

namespace test {
struct SegmentSabotage;
}

class SegmentSpace final : public Space,
                           BareAddresses,
                           ChosenAddresses,
                           PeerAccess,
                           ChunkExports,
                           GraphMemory,
                           UseOrder {
  friend struct test::SegmentSabotage;  // breaks it, so that tests see what check() reports

 public:
  SegmentSpace(const std::shared_ptr<Device>& device, std::unique_ptr<SegmentRules> rules, EventSource& events,
               std::shared_ptr<Budget> budget)
      : SegmentSpace(device, std::move(rules), events, Ledger(std::move(budget))) {}
  /// For a space inside another space: `ledger` comes from Ledger::inside().
  SegmentSpace(const std::shared_ptr<Device>& device, std::unique_ptr<SegmentRules> rules, EventSource& events,
               Ledger ledger);
  /// For memory that other devices may use, too. `devices`: the first has the memory.
  SegmentSpace(const Devices& devices, std::unique_ptr<SegmentRules> rules, EventSource& events, Ledger ledger);

  /// From now on its chunks can be passed to other processes. pre: the rules map memory, and the space has none yet.
  void make_exportable() { facets_.chunk_exports = this; }

  [[nodiscard]] Bytes round(Bytes requested) const override { return rules_->round(requested); }
  Block* take(Bytes rounded, StreamId stream) override;
  [[nodiscard]] Ladder ladder(const Attempt&) const override { return rules_->ladder(); }
  Block* climb(Rung rung, Attempt& attempt) override;
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block& block, Bytes rounded) const override;
  void trim(Bytes keep) override {
    shrink_to(keep, false);
    blocks_.shrink();
  }
  /// As trim(), but if `may_wait`, it waits for the streams whose memory it releases.
  void shrink_to(Bytes keep, bool may_wait);
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override { blocks_.for_each(visit); }
  [[nodiscard]] std::size_t segment_count() const override { return segments_.size(); }
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId stream) const override;
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;
  [[nodiscard]] std::uint64_t generation(const Block& block) const override;
  [[nodiscard]] SmallPart small_part() const override;
  void check(InvariantReport& report) const override;

  [[nodiscard]] const BlockMap& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<std::unique_ptr<SegmentMemory>>& segments() const { return segments_; }

 private:
  [[nodiscard]] std::unique_ptr<SegmentRules> graph_rules(std::shared_ptr<const GraphPool> graph_pool) const override {
    return rules_->for_graphs(std::move(graph_pool));
  }
  void release_bare_addresses() override;
  Block* take_range(AddressRange range, StreamId stream) override;
  void change_access(const Devices& added, const Devices& removed) override;
  [[nodiscard]] ExportedRange export_chunks(const Block& block) const override;
  [[nodiscard]] bool makes_exportable_chunks() const override {
    return device_->features().has(Feature::file_descriptors);
  }
  [[nodiscard]] std::vector<Idle> least_recently_used() const override;
  [[nodiscard]] SegmentView view() const;
  /// The advice for the case that there is enough memory, but none of it fits.
  [[nodiscard]] std::string advice_for(const Attempt& attempt, Bytes room) const;
  BlockGroup& group_for(Bytes rounded) { return rules_->is_small(rounded) ? blocks_.small : blocks_.large; }
  /// Removes a free block from its index and cuts it to size.
  Block* cut(Block* block, Bytes rounded);

  /// Executes a step. If the driver has no memory for it, the attempt records that; other errors are thrown.
  void run(const Step& step, Climb& climb);
  Block* add_segment(std::unique_ptr<SegmentMemory> memory, const Step& step, const Climb& climb);
  Block* map(Block* unmapped, Bytes size);
  void release(const std::vector<Block*>& victims);
  void release_segment(Block* block);
  /// Releases the memory of whole pages of the block, at most `most` bytes.
  void unmap(Block* block, Bytes most);

  std::unique_ptr<SegmentRules> rules_;
  BlockMap blocks_;
  std::vector<std::unique_ptr<SegmentMemory>> segments_;  // each at its `place`
  std::uint64_t segments_made_ = 0;
  LoneAddresses lone_addresses_;
};

}  // namespace memlake
