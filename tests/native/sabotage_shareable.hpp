#pragma once

// ShareableSabotage: opens a space of shareable ranges to tests that break it.

#include <memory>
#include <utility>
#include <vector>

#include "guards.hpp"
#include "policies/shareable/shareable_space.hpp"
#include "sabotage_ledger.hpp"

namespace memlake::test {

struct ShareableSabotage {
  using Parts = std::vector<ShareableRange::Part>;

  ShareableSpace& space;

  [[nodiscard]] static ShareableRange& range_of(const Block& block) { return ShareableSpace::range_of(block); }
  /// The free ranges that are offered to a stream as of this size.
  [[nodiscard]] std::vector<ShareableRange*>& offered(StreamId stream, Bytes size) const {
    return space.free_[{stream, size.count}];
  }
  [[nodiscard]] Bytes& held() const { return LedgerSabotage{space.ledger_}.held(); }
  [[nodiscard]] Bytes& held_on(std::size_t device) const { return LedgerSabotage{space.ledger_}.held_on(device); }

  /// The range has its chunks in the reverse order.
  [[nodiscard]] static Mend reverse_parts(ShareableRange& range) {
    const auto reverse = [&range] {
      Parts reversed;
      for (auto part = range.parts.rbegin(); part != range.parts.rend(); ++part) reversed.push_back(std::move(*part));
      range.parts.swap(reversed);
    };
    reverse();
    return reverse;
  }
  /// The mappings of the range are somewhere else.
  [[nodiscard]] static Mend unmap(ShareableRange& range) {
    const auto away = std::make_shared<Parts>();
    for (ShareableRange::Part& part : range.parts) away->push_back(std::move(part));
    return [&range, away] { range.parts.swap(*away); };
  }
  /// The range and its block lie at other mappings, of the same size.
  [[nodiscard]] static Mend move_to(ShareableRange& range, Parts parts) {
    const auto other = std::make_shared<Parts>(std::move(parts));
    const Address begin = other->front().mapping.range().begin;
    const auto swap = [&range, other] { range.parts.swap(*other); };
    swap();
    return all({swap, change(range.range.begin, begin), change(range.block.address, begin)});
  }
};

}  // namespace memlake::test
