#pragma once

// BlockingDriver: a driver that holds one kind of call until a test lets it go on. For questions about what others can
// do meanwhile.

#include <condition_variable>
#include <mutex>

#include "driver/driver.hpp"

namespace memlake::test {

class BlockingDriver final : public Driver {
 public:
  explicit BlockingDriver(Driver& inner) : inner_(inner) {}

  /// The next call of this kind waits.
  void block(Call call) {
    const std::lock_guard lock(mutex_);
    blocked_ = call;
    is_there_ = false;
  }
  /// Until such a call has come.
  void wait_for_call() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_there_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    blocked_.reset();
    changed_.notify_all();
  }

#define F(name, symbol, need, parameters, arguments) \
  CUresult name parameters override {                \
    pass(Call::name);                                \
    return inner_.name arguments;                    \
  }
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override { return inner_.explain(call, result); }

 private:
  void pass(Call call) {
    std::unique_lock lock(mutex_);
    if (blocked_ != call || is_there_) return;
    is_there_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return blocked_ != call; });
  }

  Driver& inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Call> blocked_;
  bool is_there_ = false;
};

}  // namespace memlake::test
