#pragma once

// The policies caching and expandable, as the list of policies knows them.

#include "policies/policy.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake {

/// The options of one of PyTorch's policies; null if they are another policy's.
const TorchOptions* torch_options(const PolicyOptions& options);

}  // namespace memlake
