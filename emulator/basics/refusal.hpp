#pragma once

// The exceptions for refused calls. The entry point turns them into a CUresult and keeps the sentence for
// memlakeEmulatorLastError(). A function validates before it changes anything, so a refused call has changed nothing.

#include <string>

#include "basics/sentence.hpp"
#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

using namespace memlake::cuda;  // the whole emulator uses CUDA's own names

/// The driver's documented result for a wrong call, with the reason.
struct Refusal {
  CUresult code;
  std::string sentence;
};

/// A call that would crash a real driver or corrupt memory. The ledger keeps the sentence and prints it to stderr.
struct Violation {
  std::string sentence;
  CUresult code = CUDA_ERROR_LAUNCH_FAILED;
};

template <class... Parts>
[[noreturn]] void refuse(CUresult code, const Parts&... parts) {
  throw Refusal{code, text(parts...)};
}

/// The refusal of nearly every wrong argument.
template <class... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
  throw Refusal{CUDA_ERROR_INVALID_VALUE, text(parts...)};
}

template <class... Parts>
[[noreturn]] void violate(const Parts&... parts) {
  throw Violation{text(parts...)};
}

/// Refuses a null pointer as an out-parameter.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) invalid(name, " is NULL");
  return *pointer;
}

}  // namespace memlake::emulator
