// The registry entry of the policy direct.

#include "policies/direct/direct_rules.hpp"
#include "policies/option_table.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {
namespace {

/// Nothing to set.
struct DirectOptions {};

}  // namespace

const PolicyEntry& direct_policy() {
  static const auto& table = *new PolicyTable<DirectOptions>{
      .name = "direct",
      .summary = "no pool: one driver call per request and per free",
      .capabilities = {.sharing = true},
      .defaults = {},
      .rows = {},
      .make = [](const DirectOptions&, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<DirectRules>(), events,
                                              std::move(budget));
      },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
