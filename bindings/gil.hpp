#pragma once

// Releasing and taking the GIL, also while the interpreter shuts down. During the shutdown, CPython before 3.14 ends a
// thread that takes the GIL with pthread_exit. That unwinds its stack, and unwinding through C++ destructors aborts the
// process. Such a thread sleeps here instead until the process ends.

#include <nanobind/nanobind.h>

#include <utility>

namespace memlake::bindings {

/// Releases the GIL for a scope.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased();

 private:
  PyThreadState* state_;
};

/// Takes the GIL for a scope, on any thread, also if the thread already holds it.
class GilHeld {
 public:
  GilHeld() noexcept;
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;
  ~GilHeld() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// Runs `work` without the GIL. All work that may call the driver runs through this function: a driver call can wait
/// for device work, and that work may be a host function that needs the GIL.
template <class Work>
decltype(auto) without_gil(Work&& work) {
  const GilReleased released;
  return std::forward<Work>(work)();
}

}  // namespace memlake::bindings
