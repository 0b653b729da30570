#pragma once

// The uses of one allocation or mapping by work of streams: for each stream the newest one, finished or not. Work of a
// stream runs in order, so the newest use stands for all earlier ones of its stream.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "work/order.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

class Uses {
 public:
  void note(const Work& work, const Order& order) { note(Use{work.stream, work.position, work.label}, order); }

  /// Notes all uses of other memory.
  void merge(const Uses& other, const Order& order) {
    for (const Use& use : other.uses_) note(use, order);
  }

  /// The label of a use that `is_before` does not select; null if it selects all.
  template <class IsBefore>
  [[nodiscard]] const WorkLabel* find_not(IsBefore&& is_before) const {
    const auto found =
        std::ranges::find_if(uses_, [&](const Use& use) { return !is_before(use.stream, use.position); });
    return found == uses_.end() ? nullptr : found->label.get();
  }

  /// The label of a use whose end the host has not seen; null if there is none.
  [[nodiscard]] const WorkLabel* find_unseen(const Order& order) const {
    return find_not([&](std::uint64_t stream, std::uint64_t position) { return order.has_seen(stream, position); });
  }

 private:
  static constexpr std::size_t kSweepAbove = 8;

  struct Use {
    std::uint64_t stream;
    std::uint64_t position;
    LabelRef label;
  };

  void note(const Use& use, const Order& order) {
    const auto found = std::ranges::find(uses_, use.stream, &Use::stream);
    if (found != uses_.end()) {
      if (found->position < use.position) *found = use;
      return;
    }
    if (uses_.size() >= kSweepAbove)
      std::erase_if(uses_, [&](const Use& old) { return order.has_seen(old.stream, old.position); });
    uses_.push_back(use);
  }

  std::vector<Use> uses_;
};

}  // namespace memlake::emulator
