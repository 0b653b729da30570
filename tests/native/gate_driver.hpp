#pragma once

// GateDriver: a driver that keeps streams from going on until a thread of the program waits for one. Work that was
// queued behind a gate is therefore still queued whenever the program did not wait for it.

#include <mutex>
#include <vector>

#include "driver/driver.hpp"
#include "emulated.hpp"

namespace memlake::test {

class GateDriver final : public Driver {
 public:
  explicit GateDriver(Driver& inner) : inner_(inner) {}

  /// Work that is queued on the stream from now on does not run.
  void hold(CUstream stream) {
    const std::lock_guard lock(mutex_);
    gates_.push_back(emulator().emulator().hold(stream));
  }
  /// All streams go on.
  void open_all() {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t gate : gates_) emulator().emulator().open_gate(gate);
    gates_.clear();
  }

#define F(name, symbol, need, parameters, arguments) \
  CUresult name parameters override {                \
    if (is_wait(Call::name)) open_all();             \
    return inner_.name arguments;                    \
  }
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override { return inner_.explain(call, result); }

 private:
  static constexpr bool is_wait(Call call) {
    return call == Call::cuEventSynchronize || call == Call::cuStreamSynchronize || call == Call::cuCtxSynchronize;
  }

  Driver& inner_;
  std::mutex mutex_;
  std::vector<std::uint64_t> gates_;
};

}  // namespace memlake::test
