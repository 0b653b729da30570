#pragma once

// StitchSpace: the space of the policy `stitch`, GMLake's algorithm. Large requests get primitive blocks, or stitched
// views over the chunks of several free ones; small requests get what PyTorch's small pool would give them.
//
// Memory belongs to a stream, as in GMLake and PyTorch: it reaches another one by way of the driver, or when the pool
// has waited for an event. Requests for several chunks never fail for want of a contiguous range.

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

class StitchSpace final : public Space, PolicyCounters {
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

  [[nodiscard]] const StitchCounters& stitch_counters() const { return views_.counters(); }
  [[nodiscard]] const std::vector<std::unique_ptr<StitchedView>>& views() const { return views_.views(); }

 private:
  [[nodiscard]] std::vector<Counter> counters() const override;

  /// What may be created yet, as far as it is known.
  [[nodiscard]] Bytes room();
  Block* climb_small(Rung rung, Attempt& attempt);

  /// What `work` gives; nothing if the driver had no memory, which is noted in the attempt. Other errors pass.
  template <class Work>
  auto try_to(Tried::What what, Attempt& attempt, Work&& work) -> decltype(work());
  template <class Work>
  bool tries_to_release(Attempt& attempt, Work&& work);

  /// Does it once more without the cached views if there are no addresses left.
  template <class Work>
  auto with_addresses(Work&& work);

  /// Of a primitive block; null if there is none of that size.
  Block* take_best_fit(Bytes size, StreamId stream);
  Block* take_view(StitchedView& view, Bytes size);
  /// Lends its parts to a view.
  Block* use(StitchedView& view);
  /// With new memory alone; null if there is no room for it.
  Block* grow(Bytes size, StreamId stream);
  void grow_by(Bytes size, StreamId stream);
  /// From the free blocks of the stream, with as much new memory as they lack; null if they and the room do not
  /// suffice.
  Block* stitch(Bytes size, StreamId stream);
  /// pre: the stream has that much free.
  [[nodiscard]] std::vector<StitchedView::Part> choose_parts(Bytes size, StreamId stream) const;

  [[nodiscard]] bool can_gain_from_releasing(Bytes size);
  /// Gives back what other streams and small requests have free, as far as this request lacks it. False if that is not
  /// enough.
  bool release_of_others(const Attempt& attempt);
  /// Gives chunks of any stream back, of `size` if they lie together; false if there are none.
  bool release_for_small(Bytes size);
  /// The last `size` bytes of a free block.
  void release(Block* block, Bytes size);
  void shrink_small(Bytes keep, bool may_wait);
  /// The primitive ones, of every stream.
  [[nodiscard]] std::vector<Block*> free_blocks() const;

  StitchOptions options_;
  SegmentSpace small_;
  PrimitiveBlocks blocks_;
  BlockGroup view_group_{false};  // of views: tells their blocks from primitive ones
  ViewCache views_;
  bool has_driver_refused_ = false;  // since the last wait: then it is asked how much there is
  bool starts_small_over_ = false;   // the driver refused, so the next pass asks it, too
};

}  // namespace memlake
