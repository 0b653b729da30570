#include "interpreter.hpp"

#include <nanobind/nanobind.h>

#include <stdexcept>

namespace memlake::bindings {

void require_usable_interpreter() {
  namespace nb = nanobind;
  // The core has one list of pools and devices per process, and its objects belong to the interpreter that made them.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)  // the main one has the number 0
    throw std::runtime_error(
        "memlake works in the main interpreter of a process only, and this is a subinterpreter; use threads, or "
        "processes that are started with \"spawn\"");
  // The bindings use the GIL as the lock of their own objects. A free-threaded Python switches it on when it imports
  // them, unless the user forbids that.
  PyObject* is_enabled = PySys_GetObject("_is_gil_enabled");  // from Python 3.13 on
  if (is_enabled != nullptr && !nb::cast<bool>(nb::handle(is_enabled)()))
    throw std::runtime_error(
        "memlake needs the GIL, and this Python runs without it; leave out PYTHON_GIL=0 and -X gil=0: a free-threaded "
        "Python then switches the GIL on when it imports memlake");
}

}  // namespace memlake::bindings
