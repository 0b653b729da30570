// Turns all C++ errors into Python exceptions. The exception classes are in Python (memlake/errors.py). They are
// imported when they are first needed, because memlake.errors may not exist yet when this module is imported.

#include <exception>
#include <new>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "bindings.hpp"

namespace memlake::bindings {
namespace {

const char* class_name(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::config:
    case ErrorKind::invalid_argument:
      return "ConfigError";
    case ErrorKind::closed:
      return "ClosedError";
    case ErrorKind::invalid_free:
      return "InvalidFree";
    case ErrorKind::contract_violation:
      return "ContractViolation";
    default:
      // A DriverError has the driver's answer; memlake may report an error of the same kind without a call.
      return error.answer() == nullptr ? "MemlakeError" : "DriverError";
  }
}

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("memlake.errors").attr(class_name(error));
  const DriverAnswer* answer = error.answer();
  const nb::object value = answer == nullptr
                               ? type(error.what())
                               : type(answer->call, answer->code, answer->name.c_str(), answer->meaning.c_str(),
                                      answer->detail.c_str(), kind_name(error.kind()));
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void set_python_error(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    try {
      raise(error);
    } catch (nb::python_error& python) {
      python.restore();  // the exception class could not be imported or called: raise that error
    }
  } catch (const Interrupted&) {
    // The exception of the signal handler is set.
  } catch (nb::python_error& python) {
    python.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void translate_exceptions() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error&) {
      set_python_error(pointer);
    } catch (const Interrupted&) {
      set_python_error(pointer);
    }
  });
}

}  // namespace memlake::bindings
