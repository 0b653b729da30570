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

/// Whether a call was refused because of a capture: the answer is about a graph that is being recorded, not about the
/// object that the call names.
constexpr bool is_about_capture(int code) noexcept {
  return code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         code == CUDA_ERROR_STREAM_CAPTURE_ISOLATION || code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
         code == CUDA_ERROR_CAPTURED_EVENT;
}
inline bool is_about_capture(const Error& error) noexcept {
  return error.answer() != nullptr && is_about_capture(error.answer()->code);
}

/// Whether a call was refused because a stream, an event or its context does not exist any more.
constexpr bool is_about_lost_handle(int code) noexcept {
  return code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
         code == CUDA_ERROR_INVALID_CONTEXT;
}
inline bool is_about_lost_handle(const Error& error) noexcept {
  return error.answer() != nullptr && is_about_lost_handle(error.answer()->code);
}

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
