// A policy that no release has: `direct`, with one option. Together with one line in a list of policies, this file is
// all that a new policy needs to be known in C, in Python and on the command line.

#include <algorithm>

#include "policies/direct/direct_rules.hpp"
#include "policies/option_table.hpp"
#include "policies/segments/segment_space.hpp"

namespace memlake {
namespace {

struct ToyOptions {
  Bytes at_most = GiB;
};

}  // namespace

const PolicyEntry& toy_policy() {
  static const auto& table = *new PolicyTable<ToyOptions>{
      .name = "toy",
      .summary = "a policy of the tests",
      .capabilities = {.sharing = true},
      .defaults = {},
      .rows = {{.key = "at_most",
                .member = &ToyOptions::at_most,
                .value = "a size of at least 1 KiB",
                .help = "how much it holds at most",
                .accepts = [](const ToyOptions& is) { return is.at_most >= KiB; }}},
      .make = [](const ToyOptions& options, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        budget->limit = std::min(budget->limit, options.at_most);
        return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<DirectRules>(), events,
                                              std::move(budget));
      },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
