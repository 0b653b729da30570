#include "base/undo_failure.hpp"

#include "base/process.hpp"
#include "bindings.hpp"

namespace memlake::bindings {
namespace {

/// The Python hook, or null. The GIL guards it.
PyObject* python_hook = nullptr;

/// The core calls it on any thread, with or without the GIL, possibly while another Python exception is pending.
void call_python_hook(const Error& error) {
  const DriverAnswer* answer = error.answer();
  if (answer == nullptr) return;
  const GilHeld held;
  if (python_hook == nullptr) return;
  const nb::error_scope pending;
  const nb::object hook = nb::borrow(python_hook);
  try {
    hook(answer->call, answer->code, answer->detail.c_str(), error.kind() == ErrorKind::contract_violation);
  } catch (nb::python_error& failed) {
    failed.restore();
    PyErr_WriteUnraisable(hook.ptr());
  }
}

void set_hook(nb::handle hook) {
  PyObject* const previous = python_hook;
  python_hook = hook.is_none() ? nullptr : hook.inc_ref().ptr();
  memlake::set_undo_failure_hook(python_hook == nullptr ? nullptr : call_python_hook);
  Py_XDECREF(previous);
}

}  // namespace

void bind_undo_failure(nb::module_& m) {
  m.def(
      "set_undo_failure_hook",
      [](nb::object hook) {
        if (!hook.is_none() && PyCallable_Check(hook.ptr()) == 0) throw nb::type_error("hook must be callable or None");
        set_hook(hook);
      },
      nb::arg("hook").none(),
      "hook(call: str, code: int, detail: str, is_violation: bool) is told when the undo call of a dropped owner "
      "fails.\n"
      "None removes it.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    begin_exit();
    set_hook(nb::none());
  }));
}

}  // namespace memlake::bindings
