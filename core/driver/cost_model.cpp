#include "driver/cost_model.hpp"

#include <mutex>

namespace memlake {
namespace {

struct Current {
  std::mutex mutex;
  CostModel model;
};

Current& current() {
  static auto& one = *new Current;  // not destroyed at exit: pools may outlive any static
  return one;
}

}  // namespace

void set_cost_model(const CostModel& model) {
  const std::lock_guard lock(current().mutex);
  current().model = model;
}

CostModel cost_model() {
  const std::lock_guard lock(current().mutex);
  return current().model;
}

}  // namespace memlake
