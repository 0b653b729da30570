#pragma once

// The checkpoint of the process (cuCheckpointProcess...): running, locked, checkpointed. A locked process makes no more
// calls of the driver: a thread that calls waits. A checkpointed process has given its devices' memory back; its
// contents are kept. The driver's lock guards everything here.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>

#include "cuda/checkpoint_abi.hpp"
#include "work/streams.hpp"

namespace memlake::emulator {

/// CUprocessState. CUDA's fourth state, FAILED, does not occur here.
enum class ProcessState : int { running, locked, checkpointed };

class Checkpoint {
 public:
  [[nodiscard]] ProcessState state() const { return state_; }
  [[nodiscard]] bool has_released_devices() const { return state_ == ProcessState::checkpointed; }
  [[nodiscard]] bool is_closed() const { return is_locking_ || state_ != ProcessState::running; }

  /// A call of the program begins. Waits while the process is closed to calls.
  void begin_call(Lock& lock) {
    while (is_closed()) opened_.wait(lock);
    ++calls_;
  }
  /// It has ended. Returns whether a thread waits for the end of all calls.
  bool end_call() {
    --calls_;
    return is_locking_;
  }

  /// Closes the process to new calls, and waits until those that have begun and all work of streams have ended. Throws
  /// 401 if the process is not running, 600 at the end of the time, which leaves it running.
  void close(Lock& lock, Streams& streams, const InFlight& in_flight, std::condition_variable& changed,
             std::optional<std::chrono::milliseconds> time);

  /// Throw 401 in another state than the one they begin in.
  void save();
  void restore(Devices& devices, std::span<const CUcheckpointGpuPair> pairs);
  void open();

 private:
  void check(ProcessState wanted, const char* action) const;

  ProcessState state_ = ProcessState::running;
  bool is_locking_ = false;
  int calls_ = 0;  // that have begun and not ended
  std::condition_variable opened_;
};

}  // namespace memlake::emulator
