// memlake._native: the list of all bindings. Bindings have no logic of their own; it is in core/.

#include "bindings.hpp"
#include "interpreter.hpp"
#include "policies.hpp"

NB_MODULE(_native, m) {
  using namespace memlake::bindings;
  m.doc() =
      "The native core. It knows no sizes like '8GiB', no defaults and no NumPy: it takes integers and native "
      "objects.\n"
      "A driver failure raises memlake.errors.DriverError or its subclass ContractViolation, a library that cannot be\n"
      "loaded memlake.errors.ConfigError, use after close memlake.errors.ClosedError, closing twice InvalidFree.\n"
      "Once the interpreter has begun to exit (atexit), a dropped owner makes no driver call: work may be in flight, "
      "and\n"
      "the system takes everything back anyway. An explicit close() still does what it says. A daemon thread that "
      "comes\n"
      "back from the core while the interpreter is finalizing sleeps.";
  require_usable_interpreter();
  // A daemon thread, and in a forked child every thread of the parent, may keep objects until the process ends. That is
  // no leak of the bindings, and a program that ends must not print a list of them.
  nb::set_leak_warnings(false);
  m.def("_warn_of_leaks", &nb::set_leak_warnings, nb::arg("value"),
        "Whether objects that still exist when the interpreter has ended are listed on stderr. For tests.");
  m.def(
      "report_ignored",
      [](nb::handle error, nb::handle where) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
        PyErr_WriteUnraisable(where.ptr());
      },
      nb::arg("error"), nb::arg("where"), nb::sig("def report_ignored(error: BaseException, where: object) -> None"),
      "Passes an exception that cannot be raised to sys.unraisablehook.");
  m.attr("__version__") = MEMLAKE_VERSION;
  m.def("noop", [] {}, "Does nothing; its cost is the cost of a call from Python into the core.");
  translate_exceptions();
  bind_driver(m);
  bind_device(m);
  bind_streams(m);
  bind_features(m);
  bind_emulated_work(m);
  bind_vmm(m);
  bind_policies(m);
  bind_pool(m);
  bind_publishing(m);
  bind_arrays(m);
  bind_sharing(m);
  bind_replay(m);
  bind_recorded(m);
  bind_pickles(m);
  bind_snapshots(m);
  bind_undo_failure(m);
}
