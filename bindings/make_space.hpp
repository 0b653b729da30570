#pragma once

// From the options that Python gives to the space of a pool: the one place that knows all policies.

#include <nanobind/nanobind.h>

#include "space/space.hpp"

namespace memlake::bindings {

/// None: no pool, one driver allocation per request; else the options of a policy.
SpaceMaker space_maker(nanobind::handle options);

/// What only one policy counts.
nanobind::dict counters_dict(const std::vector<Counter>& counters);

void bind_policies(nanobind::module_& m);

}  // namespace memlake::bindings
