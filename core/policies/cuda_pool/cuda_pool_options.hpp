#pragma once

// The options of the policy driver.

#include "base/bytes.hpp"
#include "streams/reuse_rules.hpp"

namespace memlake {

struct CudaPoolOptions {
  Bytes max_size{0};  ///< CUDA's maxSize; 0: none
  ReuseRules reuse{};
};

}  // namespace memlake
