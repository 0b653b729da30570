#pragma once

// The variants of the policy lake that tests run on: one for each way in which chunks may be mapped.

#include <vector>

#include "policies/lake/lake_options.hpp"

namespace memlake::test {

inline std::vector<LakeOptions> lake_variants() {
  return {{.aliasing = "none"}, {.aliasing = "whole"}, {.aliasing = "prefix"}};
}

}  // namespace memlake::test
