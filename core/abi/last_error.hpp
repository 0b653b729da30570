#pragma once

// No exception leaves a C function: it becomes an error code, and its sentence is kept for the calling thread.

#include <exception>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "memlake.h"

namespace memlake::abi {

/// Sets the answers of memlake_last_error() and memlake_last_error_code() in this thread. Allocates no memory.
void remember(int code, const char* sentence) noexcept;

[[nodiscard]] int code_of(ErrorKind kind) noexcept;

/// Calls remember() for the exception that is being handled; returns its code.
int remember_current() noexcept;

/// Runs `work` and returns MEMLAKE_OK, or the code of the exception that it threw.
template <class Work>
int code_from(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return MEMLAKE_OK;
  } catch (...) {
    return remember_current();
  }
}

}  // namespace memlake::abi
