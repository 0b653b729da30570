#pragma once

// ShareableSpace: the blocks of a pool that can be exported to other processes. Under every policy of the pool, such a
// block owns its chunks whole, because a process that imports a chunk sees all of it. When an exported block is freed,
// its memory is released. Other freed blocks are kept, with their addresses, for the next request of their size. When
// there is no room for new memory, their chunks are stitched for requests of other sizes.

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "policies/shareable/shareable_options.hpp"
#include "policies/shareable/shareable_range.hpp"
#include "policies/space.hpp"
#include "streams/stream_clock.hpp"
#include "vmm/descriptor.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {

namespace test {
struct ShareableSabotage;
}

class ShareableSpace final : public Space, StreamReuse, SeveralOwners, SeveralPlaces, PeerAccess {
  friend struct test::ShareableSabotage;  // breaks it, so that tests see what check() reports

 public:
  /// Shares the budget of the pool's other space. Error(config) if a device cannot export memory, unless the blocks
  /// are of single handles.
  ShareableSpace(std::vector<std::shared_ptr<Device>> devices, const ShareableOptions& options, EventSource& events,
                 std::shared_ptr<Budget> budget);

  [[nodiscard]] Bytes round(Bytes requested) const override;
  Block* take(Bytes rounded, StreamId stream) override;
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  void give_back(Block* block) override;
  /// False for an exported block: other processes may still see its bytes.
  [[nodiscard]] bool serves(const Block& block, Bytes rounded) const override;
  void trim(Bytes keep) override;
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override { return ranges_.size(); }
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId stream) const override;
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;
  [[nodiscard]] std::uint64_t generation(const Block& block) const override;
  void check(InvariantReport& report) const override;

  [[nodiscard]] bool is_exportable() const { return is_exportable_; }
  /// New descriptors of the block's chunks, in order. The caller can pass them on, so it must call note_export().
  [[nodiscard]] std::vector<ExportedChunk> descriptors_of(const Block& block) const;
  /// Marks the block as exported: its chunks are released when it is freed, and no stream gets them before.
  void note_export(const Block& block);

 private:
  // Facets.
  [[nodiscard]] ReuseRules reuse_rules() const override { return rules_; }
  void set_reuse_rules(const ReuseRules& rules) override { rules_ = rules; }
  /// Visits no stream for an exported block, because no stream may reuse it.
  void for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const override;
  void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const override;
  void change_access(const Devices& added, const Devices& removed) override;

  /// Chunks to take from the end of a free range: `moved` serve the request, `released` make room for new memory.
  struct Taking {
    ShareableRange* range;
    std::size_t moved = 0;
    std::size_t released = 0;
  };
  struct Plan {
    std::vector<Taking> takings;
    Bytes fresh;
  };
  struct LooseChunk {
    std::shared_ptr<PhysicalChunk> memory;
    std::size_t device;
  };

  [[nodiscard]] static ShareableRange& range_of(const Block& block) {
    return static_cast<ShareableRange&>(*block.memory);
  }
  [[nodiscard]] Bytes up(Bytes size) const { return size.rounded_up(granule_); }
  [[nodiscard]] Bytes down(Bytes size) const { return size.rounded_down(granule_); }
  [[nodiscard]] Bytes largest_device() const;
  /// How much memory may still be created: by the budget and, if `asks_driver`, by the free memory of the devices.
  [[nodiscard]] Bytes room(bool asks_driver);
  template <class Visit>
  void for_each_free(Visit&& visit) const {
    for (const auto& [key, ranges] : free_)
      for (ShareableRange* range : ranges) visit(*range);
  }

  void index(ShareableRange& range);
  void unindex(ShareableRange& range);
  ShareableRange& keep(std::unique_ptr<ShareableRange> range);
  void forget(ShareableRange& range);

  /// Returns the block that `act` gives; null if the driver had no memory, which the attempt records.
  template <class Act>
  Block* try_to(Attempt& attempt, Tried::What what, Act&& act);
  /// Whether its stream has passed its free, so that it may be unmapped.
  bool has_passed(const ShareableRange& range);
  /// Whether the stream may use the free range without a wait.
  bool may_have(StreamId stream, const ShareableRange& range);
  /// A free range of this size that another stream freed and that this one may use.
  Block* take_elsewhere(Bytes size, StreamId stream);
  /// A part of a range that was created in advance. Its chunks stay mapped.
  Block* split_stock(Bytes size, StreamId stream);
  /// A block of new chunks only; null if there is no room for it.
  Block* grow(Bytes size, StreamId stream);
  /// A block of free chunks, plus new ones for the rest; null if both are not enough.
  Block* gather(Bytes size, StreamId stream, bool may_wait);

  // Driver calls (shareable_executor.cpp).
  [[nodiscard]] std::optional<Plan> plan(Bytes size, bool may_wait);
  [[nodiscard]] std::vector<std::size_t> device_order(StreamId stream) const;
  /// Without what the driver has refused meanwhile.
  [[nodiscard]] int more_handle_types(const Device& device) const;
  /// New chunks of `size` bytes together; all or nothing.
  std::vector<LooseChunk> create(Bytes size, StreamId stream);
  /// Unmaps the last chunks of a free range and removes them from it. pre: its stream has passed the free.
  std::vector<LooseChunk> detach(ShareableRange& range, std::size_t count);
  /// Maps the chunks as one range. If a call fails, the chunks are released.
  Block* join(std::vector<LooseChunk> chunks, StreamId stream);
  void release(ShareableRange& range);

  std::vector<std::shared_ptr<Device>> devices_;
  ShareableOptions options_;
  ReuseRules rules_;
  Bytes granule_;
  StreamClock clock_;
  BlockGroup group_{false};  // its index is not used: free ranges are in free_
  std::vector<std::unique_ptr<ShareableRange>> ranges_;
  std::map<std::pair<StreamId, std::uint64_t>, std::vector<ShareableRange*>> free_;  // by stream and size
  std::uint64_t ranges_made_ = 0;
  bool is_exportable_ = true;
  bool has_driver_refused_ = false;  // since the request began
};

}  // namespace memlake
