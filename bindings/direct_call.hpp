#pragma once

// Methods that CPython calls directly. For the few methods that a program calls thousands of times per step: there the
// search of nanobind for an overload that takes the arguments costs as much as the method itself.

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <exception>

#include "bindings.hpp"

namespace memlake::bindings {

/// The names of the parameters of a method, as CPython passes the arguments of METH_FASTCALL | METH_KEYWORDS.
class Parameters {
 public:
  static constexpr std::size_t kMost = 4;
  using Values = std::array<PyObject*, kMost>;  ///< borrowed

  /// The first `positional` of the names may be given by place, and must be given. The others are given by keyword.
  Parameters(const char* method, std::size_t positional, const std::array<const char*, kMost>& names);

  /// Puts the arguments of a call into `values`; one that is not given stays as it is. False: an exception is set.
  bool read(PyObject* const* given, Py_ssize_t num_places, PyObject* keywords, Values& values) const {
    if (static_cast<std::size_t>(num_places) > positional_) return refuse_places(num_places);
    for (Py_ssize_t i = 0; i < num_places; ++i) values[static_cast<std::size_t>(i)] = given[i];
    if (keywords != nullptr && !read_keywords(given + num_places, num_places, keywords, values)) return false;
    for (std::size_t i = static_cast<std::size_t>(num_places); i < positional_; ++i)
      if (values[i] == nullptr) return refuse_missing(i);
    return true;
  }

 private:
  bool read_keywords(PyObject* const* given, Py_ssize_t num_places, PyObject* keywords, Values& values) const;
  bool refuse_places(Py_ssize_t num_places) const;
  bool refuse_missing(std::size_t parameter) const;

  const char* method_;
  std::size_t positional_;
  std::array<PyObject*, kMost> names_{};  // interned, kept until the process ends
};

/// The native object behind `self`, whose type CPython has checked.
template <class T>
T& instance(nb::handle self) {
  if (!nb::inst_ready(self)) [[unlikely]] {
    PyErr_SetString(PyExc_TypeError, "__init__() of the object was not called");
    throw nb::python_error();
  }
  return *nb::inst_ptr<T>(self);
}

/// Runs `work`, which returns a new reference. An exception of C++ is set as Python's, and null is returned.
template <class Work>
PyObject* raising_in_python(Work&& work) noexcept {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

/// The entry of a method table. CPython wants all functions in the form without keywords.
using DirectMethod = PyObject* (*)(PyObject* self, PyObject* const* given, Py_ssize_t num_places, PyObject* keywords);
inline PyMethodDef method_entry(const char* name, DirectMethod method, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method)), METH_FASTCALL | METH_KEYWORDS, doc};
}

}  // namespace memlake::bindings
