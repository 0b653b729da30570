#pragma once

// Who made something: the ledger's answer to "where does this come from?".

#include <cstdint>
#include <string>

namespace memlake::emulator {

/// Remembered with every object; resolved to names only when the ledger is printed, because that is slow.
struct Origin {
  std::uint64_t sequence = 0;  ///< the how-manyth call of the process
  const char* call = "";       ///< CUDA's name of the call
  long thread = 0;             ///< the kernel's thread id
  const void* caller = nullptr;

  /// "library+0xoffset (symbol)" of the code that called the driver; "" if unknown.
  [[nodiscard]] std::string caller_name() const;
};

/// The calling thread's id, asked from the kernel once per thread.
long this_thread_id();

}  // namespace memlake::emulator
