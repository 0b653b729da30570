#include "integers.hpp"

#include <limits>
#include <optional>

namespace memlake::bindings {
namespace {

[[noreturn]] void raise(PyObject* type, const char* argument, const char* rule, const nb::int_& value) {
  PyErr_Format(type, "%s %s, not %R", argument, rule, value.ptr());
  throw nb::python_error();
}

/// Empty if the number does not fit into a signed 64-bit integer. `is_negative` is set in any case.
std::optional<std::int64_t> to_int64(const nb::int_& value, bool& is_negative) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  is_negative = overflow != 0 ? overflow < 0 : number < 0;
  return overflow != 0 ? std::nullopt : std::optional<std::int64_t>{number};
}

}  // namespace

std::uint64_t to_count(const nb::int_& value, const char* argument) {
  bool is_negative = false;
  const auto number = to_int64(value, is_negative);
  if (is_negative) raise(PyExc_ValueError, argument, "must not be negative", value);
  if (!number) raise(PyExc_OverflowError, argument, "must be below 2**63", value);
  return static_cast<std::uint64_t>(*number);
}

Bytes to_bytes(const nb::int_& value, const char* argument) { return {to_count(value, argument)}; }

Address to_address(const nb::int_& value, const char* argument) {
  bool is_negative = false;
  if (const auto number = to_int64(value, is_negative); number && !is_negative) {
    return {static_cast<std::uint64_t>(*number)};
  }
  if (is_negative) raise(PyExc_ValueError, argument, "must not be negative", value);
  const unsigned long long number = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise(PyExc_OverflowError, argument, "must be below 2**64", value);
  }
  return {number};
}

cuda::CUstream to_stream(const nb::int_& value) {
  return reinterpret_cast<cuda::CUstream>(to_address(value, "stream").value);
}

cuda::CUevent to_event(const nb::int_& value, const char* argument) {
  return reinterpret_cast<cuda::CUevent>(to_address(value, argument).value);
}

int to_int(const nb::int_& value, const char* argument) {
  bool is_negative = false;
  const auto number = to_int64(value, is_negative);
  if (!number || *number < std::numeric_limits<int>::min() || *number > std::numeric_limits<int>::max()) {
    raise(PyExc_OverflowError, argument, "must fit into 32 bits", value);
  }
  return static_cast<int>(*number);
}

std::uint8_t to_byte(const nb::int_& value, const char* argument) {
  bool is_negative = false;
  const auto number = to_int64(value, is_negative);
  if (!number || *number < 0 || *number > 255) raise(PyExc_ValueError, argument, "must be from 0 to 255", value);
  return static_cast<std::uint8_t>(*number);
}

}  // namespace memlake::bindings
