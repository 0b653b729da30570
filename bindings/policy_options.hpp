#pragma once

// The options of policies as Python gives them.

#include <nanobind/nanobind.h>

#include <string>

#include "pool/space_maker.hpp"

namespace memlake::bindings {

/// None: no pool, one driver allocation per request.
PolicyOptions to_policy_options(nanobind::handle options);
/// ValueError for a word that it does not know.
Placement to_placement(const std::string& name);

/// What only one policy counts.
nanobind::dict counters_dict(const std::vector<Counter>& counters);

void bind_policies(nanobind::module_& m);

}  // namespace memlake::bindings
