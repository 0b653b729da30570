#pragma once

// The policies caching and expandable: their options.

#include "policies/policy.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake {

/// The options of one of PyTorch's policies; null if `options` belongs to another policy.
const TorchOptions* torch_options(const PolicyOptions& options);

}  // namespace memlake
