#pragma once

// Python integers into native ones. Python's have no width and no sign to lose, so every crossing is checked and says
// which argument was wrong.

#include <nanobind/nanobind.h>

#include <cstdint>

#include "base/address.hpp"
#include "driver/cuda_abi.hpp"

namespace memlake::bindings {

namespace nb = nanobind;

/// ValueError if negative, OverflowError from 2**63 on.
Bytes to_bytes(const nb::int_& value, const char* argument);
std::uint64_t to_count(const nb::int_& value, const char* argument);
/// ValueError if negative, OverflowError from 2**64 on.
Address to_address(const nb::int_& value, const char* argument);
cuda::CUstream to_stream(const nb::int_& value);
cuda::CUevent to_event(const nb::int_& value, const char* argument);
/// OverflowError outside 32 bits. Negative numbers pass: the driver has a documented answer for them.
int to_int(const nb::int_& value, const char* argument);
/// ValueError outside 0..255.
std::uint8_t to_byte(const nb::int_& value, const char* argument);

}  // namespace memlake::bindings
