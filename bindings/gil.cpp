#include "gil.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace memlake::bindings {
namespace {

/// Runs `take`. If CPython ends the thread inside `take`, the thread sleeps forever instead.
template <class Take>
auto take_or_sleep(Take take) noexcept {
  try {
    return take();
  } catch (const ::abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

}  // namespace

void sleep_for_ever() noexcept {
  for (;;) pause();
}

GilReleased::~GilReleased() {
  take_or_sleep([this] { PyEval_RestoreThread(state_); });
}

bool is_main_thread() noexcept {
  thread_local const bool is_main = syscall(SYS_gettid) == getpid();
  return is_main;
}

bool was_interrupted() {
  const GilHeld held;
  return PyErr_CheckSignals() != 0;
}

GilHeld::GilHeld() noexcept : state_(take_or_sleep([] { return PyGILState_Ensure(); })) {}

}  // namespace memlake::bindings
