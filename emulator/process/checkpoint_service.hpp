#pragma once

// How one process checkpoints another: a process has a thread since cuInit, its restore thread, that takes requests at
// a socket whose name has the number of the process.

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "process/checkpoint.hpp"

namespace memlake::emulator {

class Driver;

enum class CheckpointAction : std::int32_t { get_state, get_restore_thread, lock, checkpoint, restore, unlock };

inline constexpr std::size_t kMostGpuPairs = 256;

struct CheckpointRequest {
  CheckpointAction action;
  std::uint32_t milliseconds = 0;  ///< of a lock; 0: no limit
  std::span<const CUcheckpointGpuPair> pairs = {};
};

/// Does what a request asks of this process. Returns the answer of a question, or 0. Throws Refusal.
int perform(Driver& driver, Lock& lock, const CheckpointRequest& request);

/// Sends a request to another process of this user and waits for its answer. pre: the caller holds no lock. Throws
/// Refusal: the answer of the process; 1 if there is no such process; 3 if it has not called cuInit of an emulator.
int ask_process(pid_t process, const CheckpointRequest& request);

/// Starts the restore thread. If the system refuses it, other processes cannot checkpoint this one.
void start_restore_thread();

/// In a child that was forked: the thread is not there, and its socket is the parent's.
void forget_restore_thread();

}  // namespace memlake::emulator
