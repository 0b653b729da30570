#pragma once

// FailingDriver: a Driver that makes chosen calls fail, to test that the code above it leaks nothing.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "driver/driver.hpp"

namespace memlake {

class FailingDriver final : public Driver {
 public:
  explicit FailingDriver(Driver& inner) : inner_(inner) {}

  /// The nth call from now (1 is the next) of `call`, or of any function, returns `result` and is not passed on. Each
  /// fail() adds a rule that fires once; if several fire at the same call, the oldest one sets the result.
  void fail(std::optional<Call> call, std::uint64_t nth, CUresult result);
  void clear();

#define F(name, symbol, need, parameters, arguments) CUresult name parameters override;
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override;

 private:
  struct Rule {
    std::optional<Call> call;
    std::uint64_t remaining;
    CUresult result;
  };

  /// The result to return if a rule fires at this call.
  std::optional<CUresult> next_fault(Call call);

  Driver& inner_;
  std::atomic<bool> is_armed_{false};  ///< rules_ is not empty; read without the lock, which is fast if there are none
  std::mutex mutex_;
  std::vector<Rule> rules_;  ///< oldest first; guarded by mutex_
};

}  // namespace memlake
