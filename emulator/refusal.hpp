#pragma once

// How the emulator says no. A rule that is broken throws; the entry point turns it into a CUresult and keeps the
// sentence for memlakeEmulatorLastError(). Nothing has been changed when one of these is thrown: validate first, apply
// afterwards.

#include <string>

#include "driver/cuda_abi.hpp"
#include "sentence.hpp"

namespace memlake::emulator {

using namespace memlake::cuda;  // the emulator speaks CUDA's own names throughout

/// The driver's documented answer to a wrong call, and why.
struct Refusal {
  CUresult code;
  std::string sentence;
};

/// What a real driver would answer with a crash or with corrupted memory. Goes to the ledger and to stderr as well.
struct Violation {
  std::string sentence;
  CUresult code = CUDA_ERROR_LAUNCH_FAILED;
};

template <class... Parts>
[[noreturn]] void refuse(CUresult code, const Parts&... parts) {
  throw Refusal{code, text(parts...)};
}

/// The answer to nearly every wrong argument.
template <class... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
  throw Refusal{CUDA_ERROR_INVALID_VALUE, text(parts...)};
}

template <class... Parts>
[[noreturn]] void violate(const Parts&... parts) {
  throw Violation{text(parts...)};
}

/// An out-parameter must be there.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) invalid(name, " is NULL");
  return *pointer;
}

}  // namespace memlake::emulator
