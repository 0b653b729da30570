#pragma once

// A column of a trace: a contiguous NumPy array that the core reads in place.

#include <nanobind/ndarray.h>

#include <span>

#include "bindings.hpp"

namespace memlake::bindings {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> as_span(const Column<T>& column) {
  return {column.data(), column.size()};
}

}  // namespace memlake::bindings
