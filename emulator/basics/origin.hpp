#pragma once

// The origin of an object: the call that made it. The ledger shows it.

#include <cstdint>

namespace memlake::emulator {

/// Stored with every object.
struct Origin {
  std::uint64_t sequence = 0;    ///< the sequence number of the call in the process
  const char* call = "";         ///< CUDA's name of the call
  long thread = 0;               ///< the kernel's thread id
  const void* caller = nullptr;  ///< the place in the program that called the driver (caller_names.hpp)
};

/// The kernel's id of the calling thread, cached per thread.
long this_thread_id();

}  // namespace memlake::emulator
