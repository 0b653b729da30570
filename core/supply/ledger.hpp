#pragma once

// Ledger: the account of one space: how much it holds, and where. A space reports every byte that it creates or
// releases to its ledger, which updates the budget of the pool. There is no other count of held memory.

#include <memory>
#include <utility>
#include <vector>

#include "supply/budget.hpp"

namespace memlake {

namespace test {
struct LedgerSabotage;
}

class Ledger {
  friend struct test::LedgerSabotage;  // breaks it, so that tests see what a check reports

 public:
  /// `places`: the number of places where memory can lie, which are the devices of the space.
  explicit Ledger(std::shared_ptr<Budget> budget, std::size_t places = 1)
      : budget_(std::move(budget)), places_(places) {}
  /// Of a space whose memory lies on one device of its pool. `device`: the number of the device in the pool.
  static Ledger on_device(std::shared_ptr<Budget> budget, std::size_t device) {
    Ledger ledger(std::move(budget));
    ledger.first_place_ = device;
    return ledger;
  }
  /// Of a space inside another one; its held memory also counts for the outer space. `outer` must outlive it.
  static Ledger inside(Ledger& outer) {
    Ledger ledger(outer.budget_);
    ledger.outer_ = &outer;
    return ledger;
  }
  Ledger(Ledger&&) = default;
  Ledger& operator=(Ledger&&) = delete;

  /// Physical memory, created and not released.
  [[nodiscard]] Bytes held() const { return held_; }
  [[nodiscard]] Bytes held_on(std::size_t place) const { return places_[place].held; }
  /// Memory that threads are creating in unlocked scopes.
  [[nodiscard]] Bytes promised() const { return promised_; }
  [[nodiscard]] Bytes promised_on(std::size_t place) const { return places_[place].promised; }
  /// Host memory that was used because the devices had no room. It is not part of held(), and no limit counts it.
  [[nodiscard]] const Level& spilled() const { return spilled_; }

  void add(Bytes bytes, std::size_t place = 0) {
    places_[place].held = places_[place].held + bytes;
    held_ = held_ + bytes;
    outer_ == nullptr ? budget_->add(bytes, first_place_ + place) : outer_->add(bytes, place);
  }
  void subtract(Bytes bytes, std::size_t place = 0) {
    places_[place].held = places_[place].held - bytes;
    held_ = held_ - bytes;
    outer_ == nullptr ? budget_->subtract(bytes, first_place_ + place) : outer_->subtract(bytes, place);
  }
  void promise(Bytes bytes, std::size_t place) {
    places_[place].promised = places_[place].promised + bytes;
    promised_ = promised_ + bytes;
    budget_->promised = budget_->promised + bytes;
  }
  void withdraw(Bytes bytes, std::size_t place) {
    places_[place].promised = places_[place].promised - bytes;
    promised_ = promised_ - bytes;
    budget_->promised = budget_->promised - bytes;
  }
  void spill(Bytes bytes) { spilled_.add(bytes); }
  void unspill(Bytes bytes) { spilled_.subtract(bytes); }
  void reset_spilled_peak() { spilled_.peak = spilled_.now; }

  /// The most that this space may hold: the limit minus the memory that the pool holds, or is creating, elsewhere.
  [[nodiscard]] Bytes most() const {
    if (budget_->limit == Budget::kUnlimited) return budget_->limit;
    return budget_->limit.excess_over(elsewhere());
  }
  /// Memory that the pool holds, or is creating, in other spaces; and memory whose release failed.
  [[nodiscard]] Bytes elsewhere() const {
    return (budget_->held.now - held_) + (budget_->promised - promised_) + budget_->unreleased;
  }
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const { return budget_; }

 private:
  struct Place {
    Bytes held;
    Bytes promised;
  };

  std::shared_ptr<Budget> budget_;
  Ledger* outer_ = nullptr;
  std::size_t first_place_ = 0;  // the number of its first place in the budget
  std::vector<Place> places_;
  Bytes held_;
  Bytes promised_;
  Level spilled_;
};

}  // namespace memlake
