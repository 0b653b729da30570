#include "direct_call.hpp"

namespace memlake::bindings {

Parameters::Parameters(const char* method, std::size_t positional, const std::array<const char*, kMost>& names)
    : method_(method), positional_(positional) {
  for (std::size_t i = 0; i < kMost && names[i] != nullptr; ++i) {
    names_[i] = PyUnicode_InternFromString(names[i]);
    if (names_[i] == nullptr) throw nb::python_error();
  }
}

bool Parameters::read_keywords(PyObject* const* given, Py_ssize_t num_places, PyObject* keywords,
                               Values& values) const {
  const Py_ssize_t count = PyTuple_Size(keywords);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const keyword = PyTuple_GetItem(keywords, i);
    std::size_t at = 0;
    while (at < kMost && names_[at] != keyword) ++at;
    if (at == kMost) {  // a name that is not interned, such as one that a program has put together
      at = 0;
      while (at < kMost && (names_[at] == nullptr || PyUnicode_Compare(names_[at], keyword) != 0)) ++at;
      if (PyErr_Occurred() != nullptr) return false;
    }
    if (at == kMost) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method_, keyword);
      return false;
    }
    if (at < static_cast<std::size_t>(num_places)) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", method_, keyword);
      return false;
    }
    values[at] = given[i];
  }
  return true;
}

bool Parameters::refuse_places(Py_ssize_t num_places) const {
  PyErr_Format(PyExc_TypeError, "%s() takes %zu positional argument%s but %zd %s given", method_, positional_,
               positional_ == 1 ? "" : "s", num_places, num_places == 1 ? "was" : "were");
  return false;
}

bool Parameters::refuse_missing(std::size_t parameter) const {
  PyErr_Format(PyExc_TypeError, "%s() missing a required argument: '%U'", method_, names_[parameter]);
  return false;
}

}  // namespace memlake::bindings
