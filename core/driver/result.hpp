#pragma once

// Turns a CUresult into an Error with its name, its usual meaning and its kind.

#include "base/error.hpp"
#include "driver/driver.hpp"

namespace memlake {

/// Whether results.inc lists it.
bool is_known(CUresult result) noexcept;

/// The kind of failure, by which callers decide. The code alone is not enough: 2 from cuMemAddressReserve is about
/// addresses, not memory, and 719 from the emulator may be a violation that changed nothing.
ErrorKind error_kind(std::string_view call, CUresult result, bool is_violation) noexcept;

/// `call` must be static: the error keeps the pointer.
Error driver_error(const char* call, CUresult result, Explanation explanation);

/// The error of the calling thread's latest call.
Error driver_error(const Driver& driver, Call call, CUresult result);

/// Throws unless the result is success. Wraps the call itself: check(driver, Call::cuInit, driver.cuInit(0)).
inline void check(const Driver& driver, Call call, CUresult result) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    throw driver_error(driver, call, result);
}

}  // namespace memlake
