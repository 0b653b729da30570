// The registry entry of the policy stitch.

#include "policies/option_table.hpp"
#include "policies/stitch/stitch_options.hpp"
#include "policies/stitch/stitch_space.hpp"

namespace memlake {

const PolicyEntry& stitch_policy() {
  static const auto& table = *new PolicyTable<StitchOptions>{
      .name = "stitch",
      .summary = "GMLake's algorithm: stitches free blocks that lie apart",
      .capabilities = {.sharing = true, .preallocation = true, .virtual_memory = true},
      .defaults = {},
      .rows = {{.key = "frag_limit",
                .member = &StitchOptions::frag_limit,
                .value = "a size such as 64MiB",
                .help = "from this size on, a request is stitched before new memory is created; a smaller one if there "
                        "is no new memory"},
               {.key = "reuse_limit",
                .member = &StitchOptions::reuse_limit,
                .value = "a number from 1 to 1000000",
                .help = "the front of a cached view may serve a request that is smaller by up to this factor",
                .accepts = [](const StitchOptions& is) { return is.reuse_limit >= 1 && is.reuse_limit <= 1e6; }},
               {.key = "chunk_size",
                .member = &StitchOptions::chunk_size,
                .value = "whole MiB and at least 2 MiB",
                .help = "the size of a chunk; requests of more than 1 MiB are rounded up to it",
                .accepts =
                    [](const StitchOptions& is) {
                      return is.chunk_size >= MiB * 2 && is.chunk_size.is_multiple_of(MiB);
                    }},
               {.key = "max_views",
                .member = &StitchOptions::max_views,
                .value = "a whole number of at least 0",
                .help = "the maximum number of stitched views, in use or cached; 0: no stitching"},
               {.key = "max_view_bytes",
                .member = &StitchOptions::max_view_bytes,
                .value = "more than 0 bytes (max_views:0 stitches nothing)",
                .help = "the maximum number of bytes in these views",
                .default_words = "four times the device's memory",
                .accepts = [](const StitchOptions& is) { return is.max_view_bytes.count > 0; }},
               {.key = "max_mappings",
                .member = &StitchOptions::max_mappings,
                .value = "a whole number of at least 0",
                .help = "the maximum number of their mappings"}},
      .make = [](const StitchOptions& options, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        return std::make_unique<StitchSpace>(devices.front(), options, events, std::move(budget));
      },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
