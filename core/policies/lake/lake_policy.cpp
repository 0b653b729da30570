// The policy lake, as the list of policies knows it.

#include "policies/lake/lake_options.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/option_table.hpp"

namespace memlake {

const PolicyEntry& lake_policy() {
  static const auto& table = *new PolicyTable<LakeOptions>{
      .name = "lake",
      .summary = "memlake's own: chunks move, and free parts are borrowed, when memory is short",
      .capabilities = {.several_devices = true,
                       .host_memory = true,
                       .spill = true,
                       .sharing = true,
                       .preallocation = true,
                       .reuse_rules = true,
                       .peers = true},
      .defaults = {},
      .rows = {{.key = "may_alias",
                .member = &LakeOptions::may_alias,
                .value = "True or False",
                .help =
                    "whether a chunk may be mapped at two addresses at once, as NVIDIA's devices can. If it is False, "
                    "only whole chunks move, and the host waits before each move"}},
      .make = [](const LakeOptions& options, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        return std::make_unique<LakeSpace>(devices, options, events, std::move(budget));
      },
      .take =
          [](LakeOptions& options, const PoolArguments& arguments) {
            options.placement = arguments.placement;
            options.location = arguments.location;
            options.may_spill = arguments.may_spill;
          },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
