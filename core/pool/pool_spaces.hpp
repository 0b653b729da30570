#pragma once

// PoolSpaces: the spaces of a pool. The first is the space of the policy; further ones have the memory of graph pools
// and the memory for other processes. All have one budget.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "policies/space.hpp"

namespace memlake {

class PoolSpaces {
 public:
  /// `policy`: the space of the policy. The budget of its ledger becomes the pool's budget.
  explicit PoolSpaces(std::unique_ptr<Space> policy);

  /// Adds a space whose ledger has the pool's budget. `is_default`: it serves the requests that name no space. It gets
  /// the reuse rules and the peers of the policy's space.
  Space& add(std::unique_ptr<Space> space, bool is_default);
  /// Removes the spaces for which `is_over` returns true. pre: no block of them is live or pending.
  void remove_if(const std::function<bool(const Space&)>& is_over);

  [[nodiscard]] std::size_t size() const noexcept { return spaces_.size(); }
  [[nodiscard]] auto begin() const noexcept { return spaces_.begin(); }
  [[nodiscard]] auto end() const noexcept { return spaces_.end(); }
  /// The spaces that were added last come first.
  [[nodiscard]] auto rbegin() const noexcept { return spaces_.rbegin(); }
  [[nodiscard]] auto rend() const noexcept { return spaces_.rend(); }
  /// The space of the policy.
  [[nodiscard]] Space& policy() const noexcept { return *spaces_.front(); }
  /// The space that serves the requests that name none.
  [[nodiscard]] Space& by_default() const noexcept { return *default_; }
  /// pre: the block is live or pending.
  [[nodiscard]] Space& of(const Block& block) const noexcept { return *by_number_[block.space]; }
  /// Visits every block of all spaces, in no particular order.
  void for_each(const std::function<void(const Block&)>& visit) const;

  [[nodiscard]] const std::shared_ptr<Budget>& budget() const { return policy().ledger().budget(); }
  /// The memory that all spaces together hold.
  [[nodiscard]] const Level& held() const;
  /// Whether at least `mark` is held now, and less was held at some time since this last returned true.
  bool has_risen_to(Bytes mark);
  /// Host memory that was used because the devices had no room. It is not part of held(), and no limit counts it.
  [[nodiscard]] Level spilled() const;
  [[nodiscard]] std::size_t segment_count() const;
  /// The largest free block of any stream. What graphs use is free for them alone, and does not count.
  [[nodiscard]] Bytes largest_free() const;
  /// Resets the peak of held memory.
  void reset_held_peak();

  // See Space; for all spaces, and for those that are added later.

  void set_reuse_rules(const ReuseRules& rules);
  /// All or nothing.
  void set_peers(const Devices& peers);
  void set_observer(SupplyObserver* observer);

 private:
  std::vector<std::unique_ptr<Space>> spaces_;  // the first is the policy's
  std::vector<Space*> by_number_;               // the same; null: a number that no space has now
  Space* default_;                              // serves requests that name no space
  SupplyObserver* observer_ = nullptr;
};

}  // namespace memlake
