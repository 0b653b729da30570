// Checks the invariants of shareable blocks, from their chunks.

#include <algorithm>
#include <set>

#include "policies/address_check.hpp"
#include "policies/shareable/shareable_space.hpp"

namespace memlake {

void ShareableSpace::check(InvariantReport& report) const {
  std::set<const ShareableRange*> known;
  for (const auto& range : ranges_) known.insert(range.get());
  std::set<const ShareableRange*> offered;
  for (const auto& [key, ranges] : free_)
    for (const ShareableRange* range : ranges) {
      if (!known.contains(range)) {
        report.add("I6: a range is offered that the pool does not have");
        continue;
      }
      if (!offered.insert(range).second) report.add("I6: ", place(range->block), " is offered twice");
      if (key != std::pair{range->block.stream, range->block.size.count})
        report.add("I6: ", place(range->block), " is offered to another stream, or as another size");
    }
  std::set<const PhysicalChunk*> chunks;
  std::vector<AddressRange> covered;
  std::vector<Bytes> held_on(devices_.size());
  Bytes held{0};
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const ShareableRange& range = *ranges_[i];
    const Block& block = range.block;
    covered.push_back(range.range);
    if (range.place != i) report.add("I5: ", place(block), " is not where the pool looks for it");
    if (AddressRange{block.address, block.size} != range.range || block.memory != &range)
      report.add("I1: ", place(block), " does not cover its range");
    Address next = range.range.begin;
    for (const ShareableRange::Part& part : range.parts) {
      if (!part.mapping.is_open() || part.mapping.range().begin != next) {
        report.add("I1: ", place(block), " has a gap between two chunks");
        break;
      }
      next = part.mapping.range().end();
      if (part.size() != part.mapping.chunk()->size()) report.add("I3: ", place(block), " does not own a chunk whole");
      if (!chunks.insert(part.mapping.chunk().get()).second)
        report.add("I3: ", place(block), " has a chunk that another block has, too");
      if (part.device >= held_on.size()) {
        report.add("I4: ", place(block), " has a chunk on a device that the pool does not have");
        break;
      }
      held_on[part.device] = held_on[part.device] + part.size();
      held = held + part.size();
    }
    if (next != range.range.end()) report.add("I1: ", place(block), " ends with a gap");
    if ((block.state == BlockState::free) != offered.contains(&range))
      report.add("I6: ", place(block),
                 block.state == BlockState::free ? " is free but not offered" : " is offered but not free");
    if (range.is_exported && (block.state == BlockState::free || block.give_back != GiveBack::to_driver))
      report.add("I3: ", place(block), " was exported, but may be used again");
  }
  check_apart(std::move(covered), report);
  for (std::size_t i = 0; i < held_on.size(); ++i)
    if (held_on[i] != ledger_.held_on(i))
      report.add("I4: shareable blocks on device ", i, " have ", held_on[i].count, " bytes of memory, but ",
                 ledger_.held_on(i).count, " are held");
  if (held != ledger_.held())
    report.add("I4: shareable blocks have ", held.count, " bytes of memory, but ", ledger_.held().count, " are held");
}

}  // namespace memlake
