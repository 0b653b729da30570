#include "policies/graph_pool.hpp"

namespace memlake {

std::string GraphPoolId::text() const {
  std::string text = "(";
  text.append(std::to_string(first)).append(", ").append(std::to_string(second)).append(")");
  return text;
}

}  // namespace memlake
