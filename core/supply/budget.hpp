#pragma once

// Budget: what a pool may hold and what it holds, all its spaces together. A space counts what it holds itself through
// a Holding, which is the only way to change the level of the budget.

#include <limits>
#include <memory>
#include <utility>

#include "supply/level.hpp"

namespace memlake {

struct Budget {
  static constexpr Bytes kUnlimited{std::numeric_limits<std::uint64_t>::max()};

  explicit Budget(Bytes most) : limit(most) {}

  Bytes limit;      ///< what may be held; kUnlimited for no limit
  TidalLevel held;  ///< physical memory, created and not released
  Bytes promised;   ///< what is being made now, outside the lock: nobody else may plan with it
};

/// What one space holds of its pool's budget.
class Holding {
 public:
  explicit Holding(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  Bytes now;
  Bytes promised;  ///< what this space is making now, outside the lock

  void add(Bytes bytes) {
    now = now + bytes;
    budget_->held.add(bytes);
  }
  void subtract(Bytes bytes) {
    now = now - bytes;
    budget_->held.subtract(bytes);
  }
  void promise(Bytes bytes) {
    promised = promised + bytes;
    budget_->promised = budget_->promised + bytes;
  }
  void withdraw(Bytes bytes) {
    promised = promised - bytes;
    budget_->promised = budget_->promised - bytes;
  }
  /// What this space may hold: the limit less what the pool holds or is making elsewhere.
  [[nodiscard]] Bytes most() const {
    const Bytes elsewhere = (budget_->held.now - now) + (budget_->promised - promised);
    if (elsewhere.count == 0 || budget_->limit == Budget::kUnlimited) return budget_->limit;
    return budget_->limit > elsewhere ? budget_->limit - elsewhere : Bytes{0};
  }
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const { return budget_; }

 private:
  std::shared_ptr<Budget> budget_;
};

}  // namespace memlake
