#pragma once

// The list of all policies, and which of them a text means. policies.inc is the only place that names them.

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "policies/policy.hpp"

namespace memlake {

/// In the order of tables; the first is the default.
const std::vector<const PolicyEntry*>& policies();

/// Keys that describe a pool and not its policy. abi/conf.cpp reads them.
inline constexpr std::array<std::string_view, 7> kPoolKeys{
    "limit", "driver", "devices", "memory", "backing", "spill", "per_process_memory_fraction"};

/// A policy with its options.
struct ChosenPolicy {
  const PolicyEntry* entry;
  std::shared_ptr<const PolicyOptions> options;

  [[nodiscard]] SpaceMaker space_maker(const PoolArguments& arguments = {}) const {
    return [make = options->space_maker(arguments), name = entry->name.c_str()](
               const Devices& devices, EventSource& events, std::shared_ptr<Budget> budget) {
      std::unique_ptr<Space> space = make(devices, events, std::move(budget));
      space->set_policy_name(name);
      return space;
    };
  }
};

/// The policy that settings mean: the named one, else the one whose keys are there, else the default. Throws
/// Error(config) with a sentence that names the bad key or value, and what is possible. `of_pool`: they came with keys
/// of a pool.
ChosenPolicy choose_policy(const std::vector<Setting>& settings, bool of_pool);
/// The same for a text that has no keys of a pool.
ChosenPolicy choose_policy(std::string_view text);

/// "policy:lake and policy:driver": those with a capability.
std::string policies_with(bool Capabilities::* capability);

}  // namespace memlake
