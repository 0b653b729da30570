#pragma once

// Policies as Python gives them: as text, beside the arguments of a pool.

#include <nanobind/nanobind.h>

#include <string>

#include "policies/registry/registry.hpp"

namespace memlake::bindings {

// ValueError for a word that they do not know.
Placement to_placement(const std::string& name);
Location to_location(const std::string& name);

/// What only one policy counts.
nanobind::dict counters_dict(const std::vector<Counter>& counters);

void bind_policies(nanobind::module_& m);

}  // namespace memlake::bindings
