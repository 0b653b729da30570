#pragma once

// Who made something: the ledger's answer to "where does this come from?".

#include <cstdint>

namespace memlake::emulator {

/// Remembered with every object.
struct Origin {
  std::uint64_t sequence = 0;    ///< the how-manyth call of the process
  const char* call = "";         ///< CUDA's name of the call
  long thread = 0;               ///< the kernel's thread id
  const void* caller = nullptr;  ///< the place in the program that called the driver (caller_names.hpp)
};

/// The calling thread's id, asked from the kernel once per thread.
long this_thread_id();

}  // namespace memlake::emulator
