#include "driver/failing_driver.hpp"

namespace memlake {
namespace {

// Whose injected answer was the calling thread's latest. The library was not asked, so it has nothing to explain.
thread_local const FailingDriver* latest_fault_of = nullptr;

// Whether a test has ever asked for a fault. Until then no call reads or writes the variable above.
std::atomic<bool> was_ever_armed{false};

}  // namespace

void FailingDriver::fail(std::optional<Call> call, std::uint64_t nth, CUresult result) {
  const std::lock_guard lock(mutex_);
  rules_.push_back({call, nth, result});
  was_ever_armed = true;
  is_armed_ = true;
}

void FailingDriver::clear() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
  is_armed_ = false;
}

std::optional<CUresult> FailingDriver::next_fault(Call call) {
  if (!was_ever_armed.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  latest_fault_of = nullptr;
  if (!is_armed_.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::optional<CUresult> answer;
  for (Rule& rule : rules_) {
    if (rule.call && *rule.call != call) continue;
    if (--rule.remaining == 0 && !answer) answer = rule.result;
  }
  std::erase_if(rules_, [](const Rule& rule) { return rule.remaining == 0; });
  is_armed_ = !rules_.empty();
  if (answer) latest_fault_of = this;
  return answer;
}

#define F(name, symbol, need, parameters, arguments)              \
  CUresult FailingDriver::name parameters {                       \
    if (const auto fault = next_fault(Call::name)) return *fault; \
    return inner_.name arguments;                                 \
  }
#include "driver/functions.inc"
#undef F

Explanation FailingDriver::explain(Call call, CUresult result) const {
  if (was_ever_armed.load(std::memory_order_relaxed) && latest_fault_of == this)
    return {"a fault injected by a test", false};
  return inner_.explain(call, result);
}

}  // namespace memlake
