#pragma once

// The state that the emulator keeps for each thread and reads in every call. It is one variable: in a shared library
// each variable of a thread costs a function call.

#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

/// It has no destructor: the destructors of a program's globals may call the driver, and run later than those of the
/// main thread's variables.
struct ThisThread {
  /// The kernel's id of the thread; 0: not asked yet. See this_thread_id().
  long id = 0;
  /// Whether the thread is inside a host function, which must not call the driver.
  bool is_in_host_function = false;
  /// Whether stream 0 is the thread's own default stream. The _ptsz and _ptds variants set it during a call.
  bool default_is_per_thread = false;
  /// Whether last_error() has a sentence.
  bool has_error = false;
  cuda::CUstreamCaptureMode capture_mode = cuda::CU_STREAM_CAPTURE_MODE_GLOBAL;
};

inline constinit thread_local ThisThread this_thread;

}  // namespace memlake::emulator
