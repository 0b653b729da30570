#pragma once

// StitchSpace: the space of the policy `stitch`, GMLake's algorithm. Large requests get primitive blocks, or stitched
// views over the chunks of several free ones; small requests are served as by PyTorch's small pool.
//
// Memory belongs to a stream, as in GMLake and PyTorch: another stream gets it only through the driver, or after the
// pool has waited for an event. Requests for several chunks never fail because no free range is contiguous.

#include <memory>
#include <vector>

#include "policies/segments/segment_space.hpp"
#include "policies/space.hpp"
#include "policies/stitch/primitive_blocks.hpp"
#include "policies/stitch/stitch_options.hpp"
#include "policies/stitch/view_cache.hpp"

namespace memlake {

namespace test {
struct StitchSabotage;
}

class StitchSpace final : public Space, PolicyCounters, UseOrder {
  friend struct test::StitchSabotage;  // breaks it, so that tests see what check() reports

 public:
  StitchSpace(std::shared_ptr<Device> device, const StitchOptions& options, EventSource& events,
              std::shared_ptr<Budget> budget);

  [[nodiscard]] Bytes round(Bytes requested) const override;
  Block* take(Bytes rounded, StreamId stream) override;
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block& block, Bytes rounded) const override;
  void trim(Bytes keep) override;
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override;
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId stream) const override;
  void set_policy_name(const char* name) override {
    Space::set_policy_name(name);
    small_.set_policy_name(name);
  }
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;
  [[nodiscard]] std::uint64_t generation(const Block& block) const override;
  void check(InvariantReport& report) const override;
  void set_observer(SupplyObserver* observer) override {
    Space::set_observer(observer);
    blocks_.watch.set(observer);
    small_.set_observer(observer);
  }
  [[nodiscard]] SmallPart small_part() const override { return small_.small_part(); }

  [[nodiscard]] const StitchCounters& stitch_counters() const { return views_.counters(); }
  [[nodiscard]] const std::vector<std::unique_ptr<StitchedView>>& views() const { return views_.views(); }

 private:
  [[nodiscard]] std::vector<Counter> counters() const override;
  [[nodiscard]] std::vector<Idle> least_recently_used() const override;

  /// How much memory may still be created, as far as it is known.
  [[nodiscard]] Bytes room();
  Block* climb_small(Rung rung, Attempt& attempt);

  /// The result of `work`; empty if the driver had no memory, which the attempt records. Other errors are thrown.
  template <class Work>
  auto try_to(Tried::What what, Attempt& attempt, Work&& work) -> decltype(work());
  template <class Work>
  bool tries_to_release(Attempt& attempt, Work&& work);

  /// Runs `work`. If no addresses are left, it evicts the cached views and runs `work` again.
  template <class Work>
  auto with_addresses(Work&& work);

  /// From the smallest primitive block that is large enough; null if there is none.
  Block* take_best_fit(Bytes size, StreamId stream);
  Block* take_view(StitchedView& view, Bytes size);
  /// Lends the parts of a view to it.
  Block* use(StitchedView& view);
  /// Creates new memory for the whole request; null if there is no room for it.
  Block* grow(Bytes size, StreamId stream);
  void grow_by(Bytes size, StreamId stream);
  /// Stitches free blocks of the stream, plus new memory for the rest; null if both are not enough or the limits of
  /// views do not allow it.
  Block* stitch(Bytes size, StreamId stream);
  /// pre: the stream has at least `size` bytes free.
  [[nodiscard]] std::vector<StitchedView::Part> choose_parts(Bytes size, StreamId stream) const;

  [[nodiscard]] bool can_gain_from_releasing(Bytes size);
  /// Releases free memory of other streams and of small requests, as much as this request lacks. False if the request
  /// lacks none, or if that is not enough.
  bool release_of_others(const Attempt& attempt);
  /// Releases chunks of the smallest free block of any stream, at most `size`; false if no block is free.
  bool release_for_small(Bytes size);
  /// Releases the last `size` bytes of a free block. False if a stream that captures a graph may still use them.
  bool release(Block* block, Bytes size);
  void shrink_small(Bytes keep, bool may_wait);
  /// The free primitive blocks of all streams.
  [[nodiscard]] std::vector<Block*> free_blocks() const;

  StitchOptions options_;
  SegmentSpace small_;
  PrimitiveBlocks blocks_;
  BlockGroup view_group_{false};  // distinguishes the blocks of views from primitive ones
  ViewCache views_;
  bool has_driver_refused_ = false;  // since the ladder's last `search`: then room() asks the driver
  bool starts_small_over_ = false;   // the ladder begins again after a refusal, so room() asks the driver
};

}  // namespace memlake
