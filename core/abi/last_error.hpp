#pragma once

// The border that no exception crosses: a failure becomes a code, and its sentence is kept for the thread that asked.

#include <exception>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "memlake.h"

namespace memlake::abi {

/// What memlake_last_error() and memlake_last_error_code() will answer in this thread. Allocates nothing.
void remember(int code, const char* sentence) noexcept;

[[nodiscard]] int code_of(ErrorKind kind) noexcept;

/// Remembers the exception that is being handled; returns its code.
int remember_current() noexcept;

/// Runs `work` and answers MEMLAKE_OK, or the code of what it threw.
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
