#pragma once

// Converts Python integers to native ones. Python's integers have any size and sign, so every conversion checks the
// range, and its error names the argument.

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
/// OverflowError outside 32 bits. Negative numbers are allowed: the driver has a documented result for them.
int to_int(const nb::int_& value, const char* argument);
/// ValueError outside 0..255.
std::uint8_t to_byte(const nb::int_& value, const char* argument);

}  // namespace memlake::bindings
