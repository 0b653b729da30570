// The registry entry of the policy driver.

#include "policies/cuda_pool/cuda_pool_options.hpp"
#include "policies/cuda_pool/cuda_pool_space.hpp"
#include "policies/option_table.hpp"

namespace memlake {

const PolicyEntry& driver_policy() {
  static const auto& table = *new PolicyTable<CudaPoolOptions>{
      .name = "driver",
      .summary = "CUDA's own memory pools; approximate on the emulator",
      .capabilities =
          {.preallocation = true, .reuse_rules = true, .peers = true, .driver_release = true, .approximate = true},
      .defaults = {},
      .rows = {{.key = "reuse_follow_event_dependencies",
                .member = [](CudaPoolOptions& options) -> bool& { return options.reuse.follow_event_dependencies; },
                .value = "True or False",
                .help = "a stream may reuse memory of another stream if events order it behind the free"},
               {.key = "reuse_allow_opportunistic",
                .member = [](CudaPoolOptions& options) -> bool& { return options.reuse.allow_opportunistic; },
                .value = "True or False",
                .help = "a stream may reuse memory of another stream if the free has already run"},
               {.key = "reuse_allow_internal_dependencies",
                .member = [](CudaPoolOptions& options) -> bool& { return options.reuse.allow_internal_dependencies; },
                .value = "True or False",
                .help = "a stream may reuse memory of another stream behind a wait that the driver inserts, if there "
                        "is no other memory"}},
      .make = [](const CudaPoolOptions& options, const Devices& devices, EventSource& events,
                 std::shared_ptr<Budget> budget) -> std::unique_ptr<Space> {
        return std::make_unique<CudaPoolSpace>(devices.front(), options, events, std::move(budget));
      },
      .take = [](CudaPoolOptions& options, const PoolArguments& arguments) { options.max_size = arguments.max_size; },
  };
  static const auto& entry = *new PolicyEntry(entry_of(table));
  return entry;
}

}  // namespace memlake
