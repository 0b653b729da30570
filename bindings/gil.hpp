#pragma once

// Giving the GIL up and taking it, also while the interpreter ends. Then CPython before 3.14 ends any thread that asks
// for the GIL with pthread_exit, which unwinds its stack; through C++ destructors that aborts the process. Such a
// thread sleeps here instead, until the process is gone.

#include <nanobind/nanobind.h>

#include <utility>

namespace memlake::bindings {

/// Without the GIL for a scope.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased();

 private:
  PyThreadState* state_;
};

/// With the GIL for a scope, on any thread, whether it had the GIL or not.
class GilHeld {
 public:
  GilHeld() noexcept;
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;
  ~GilHeld() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// Runs `work` without the GIL. Everything that may call the driver goes through here: a driver call can wait for
/// device work, and that work may be a host function that needs the GIL.
template <class Work>
decltype(auto) without_gil(Work&& work) {
  const GilReleased released;
  return std::forward<Work>(work)();
}

}  // namespace memlake::bindings
