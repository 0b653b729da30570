#pragma once

// StitchSabotage: opens a space of stitched views to tests that break it.

#include "guards.hpp"
#include "policies/stitch/stitch_space.hpp"
#include "sabotage_ledger.hpp"

namespace memlake::test {

struct StitchSabotage {
  StitchSpace& space;

  [[nodiscard]] Bytes& held() const { return LedgerSabotage{space.ledger_}.held(); }
  [[nodiscard]] Bytes& view_bytes() const { return space.views_.bytes_; }
  [[nodiscard]] Bytes& view_bytes_in_use() const { return space.views_.counters_.in_use.now; }

  /// An idle view is offered to no request.
  [[nodiscard]] Mend withdraw(StitchedView& view) const {
    ViewCache& views = space.views_;
    views.withdraw(view, ViewCache::key_of(view));
    return [&views, &view] { views.offer(view); };
  }
};

}  // namespace memlake::test
