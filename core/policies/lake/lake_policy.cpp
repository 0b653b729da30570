// The policy lake, as the list of policies knows it.

#include "driver/aliasing.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/option_table.hpp"

namespace memlake {

const PolicyEntry& lake_policy() {
  static const auto& table = *new PolicyTable<LakeOptions>{
      .name = "lake",
      .summary = "memlake's own: free chunks move to where a request needs them when memory is short",
      .capabilities = {.several_devices = true,
                       .host_memory = true,
                       .spill = true,
                       .sharing = true,
                       .preallocation = true,
                       .reuse_rules = true,
                       .peers = true,
                       .virtual_memory = true},
      .defaults = {},
      .rows = {{.key = "aliasing",
                .member = &LakeOptions::aliasing,
                .value = "auto, none, whole or prefix",
                .help =
                    "how a chunk may be mapped a second time. none: not at all, so the host waits before it moves a "
                    "chunk that a stream may still use; whole: only a whole chunk; prefix: also its first part; "
                    "auto: the highest level that is proven on all devices of the pool",
                .accepts =
                    [](const LakeOptions& options) {
                      return options.aliasing == "auto" || aliasing_of(options.aliasing).has_value();
                    }}},
      .make = [](const LakeOptions& options, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        return std::make_unique<LakeSpace>(devices, options, events, std::move(budget));
      },
      .take =
          [](LakeOptions& options, const PoolArguments& arguments) {
            options.placement = arguments.placement;
            options.location = arguments.location;
            options.may_spill = arguments.may_spill;
            options.is_exportable = arguments.is_exportable;
          },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
