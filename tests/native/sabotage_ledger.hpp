#pragma once

// Breaks a ledger, so that tests see what a check reports.

#include "supply/ledger.hpp"

namespace memlake::test {

struct LedgerSabotage {
  Ledger& ledger;

  [[nodiscard]] Bytes& held() const { return ledger.held_; }
  [[nodiscard]] Bytes& held_on(std::size_t place) const { return ledger.places_.at(place).held; }
  [[nodiscard]] Bytes& spilled() const { return ledger.spilled_.now; }
};

}  // namespace memlake::test
