#include "driver/driver.hpp"

#include <algorithm>
#include <iterator>

namespace memlake {

std::optional<Call> find_call(std::string_view name) noexcept {
  const auto found = std::find(call_names.begin(), call_names.end(), name);
  if (found == call_names.end()) return std::nullopt;
  return static_cast<Call>(std::distance(call_names.begin(), found));
}

}  // namespace memlake
