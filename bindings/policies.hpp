#pragma once

// Conversions for policies: words of pool arguments to enums, and counters to a dict.

#include <nanobind/nanobind.h>

#include <string>

#include "policies/registry/registry.hpp"

namespace memlake::bindings {

// ValueError for an unknown word.
Placement to_placement(const std::string& name);
Location to_location(const std::string& name);

/// The counters that only one policy has.
nanobind::dict counters_dict(const std::vector<Counter>& counters);

void bind_policies(nanobind::module_& m);

}  // namespace memlake::bindings
