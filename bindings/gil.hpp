#pragma once

// Releasing and taking the GIL, also while the interpreter shuts down. During the shutdown, CPython before 3.14 ends a
// thread that takes the GIL with pthread_exit. That unwinds its stack, and unwinding through C++ destructors aborts the
// process. Such a thread sleeps here instead until the process ends.

#include <cxxabi.h>
#include <nanobind/nanobind.h>

#include <utility>

#include "base/interrupt.hpp"

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

/// Sleeps until the process ends.
[[noreturn]] void sleep_for_ever() noexcept;

/// Runs `work`, which calls Python code from C++. CPython may end the thread in that code; see above.
template <class Work>
auto with_python(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const ::abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

/// Runs `work` without the GIL. All work that may call the driver runs through this function: a driver call can wait
/// for device work, and that work may be a host function that needs the GIL.
template <class Work>
decltype(auto) without_gil(Work&& work) {
  const GilReleased released;
  return std::forward<Work>(work)();
}

/// Whether this is the thread that began the process, in which Python handles signals.
bool is_main_thread() noexcept;

/// Whether a signal handler of Python raised an exception, which is then set. Takes the GIL.
bool was_interrupted();

/// without_gil() for work that may wait long for a device: Python's main thread, which handles signals, can be
/// interrupted.
template <class Work>
decltype(auto) interruptibly(Work&& work) {
  const GilReleased released;
  const InterruptScope scope(is_main_thread() ? &was_interrupted : nullptr);
  return std::forward<Work>(work)();
}

}  // namespace memlake::bindings
