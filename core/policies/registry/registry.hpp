#pragma once

// The list of all policies, and the choice of one by a configuration text. Only policies.inc lists their names.

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "policies/policy.hpp"

namespace memlake {

/// In the order of policies.inc; the first is the default.
const std::vector<const PolicyEntry*>& policies();

/// Keys that describe a pool and not its policy. abi/conf.cpp reads them.
inline constexpr std::array<std::string_view, 6> kPoolKeys{"limit", "driver", "devices", "memory", "backing", "spill"};

/// Error(config) if a device cannot have pools of the policy.
void require_virtual_memory_for(const Devices& devices, const char* policy);

/// The policy of a pool for which none was chosen: the first of the list that works on all these devices.
const PolicyEntry& default_policy_on(const Devices& devices);

/// A policy with its options.
struct ChosenPolicy {
  const PolicyEntry* entry;
  std::shared_ptr<const PolicyOptions> options;

  [[nodiscard]] SpaceMaker space_maker(const PoolArguments& arguments = {}) const {
    return [make = options->space_maker(arguments), name = entry->name.c_str(),
            needs_virtual_memory = entry->capabilities.virtual_memory](const Devices& devices, EventSource& events,
                                                                       std::shared_ptr<Budget> budget) {
      if (needs_virtual_memory) require_virtual_memory_for(devices, name);
      std::unique_ptr<Space> space = make(devices, events, std::move(budget));
      space->set_policy_name(name);
      return space;
    };
  }
};

/// The policy that the settings choose: by its name, else by its flag, else by its keys, else the default. Throws
/// Error(config) with a sentence that names the bad key or value and the possible ones. `of_pool`: the
/// settings come from the text of a pool, whose own keys were read before.
ChosenPolicy choose_policy(const std::vector<Setting>& settings, bool of_pool);
/// The policy that a text without keys of a pool chooses.
ChosenPolicy choose_policy(std::string_view text);

/// The policies that have the capability, as in "policy:lake and policy:driver".
std::string policies_with(bool Capabilities::* capability);

}  // namespace memlake
