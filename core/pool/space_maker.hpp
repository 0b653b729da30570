#pragma once

// From the options of a policy to the space of a pool: the one place that knows all policies.

#include <variant>

#include "driven/driver_options.hpp"
#include "lake/lake_options.hpp"
#include "policy/torch_options.hpp"
#include "space/space.hpp"
#include "stitch/stitch_options.hpp"

namespace memlake {

/// No pool: one driver allocation per request. Nothing to set.
struct DirectOptions {};

using PolicyOptions = std::variant<DirectOptions, TorchOptions, LakeOptions, StitchOptions, DriverOptions>;

/// Only a lake is made on more than the first device.
SpaceMaker space_maker(const PolicyOptions& options);

}  // namespace memlake
