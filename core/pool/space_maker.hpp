#pragma once

// From the options of a policy to the space of a pool: the one place that knows all policies.

#include <variant>

#include "policies/cuda_pool/cuda_pool_options.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/space.hpp"
#include "policies/stitch/stitch_options.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake {

/// No pool: one driver allocation per request. Nothing to set.
struct DirectOptions {};

using PolicyOptions = std::variant<DirectOptions, TorchOptions, LakeOptions, StitchOptions, CudaPoolOptions>;

/// Only a lake is made on more than the first device.
SpaceMaker space_maker(const PolicyOptions& options);

}  // namespace memlake
