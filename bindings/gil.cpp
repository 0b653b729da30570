#include "gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

namespace memlake::bindings {
namespace {

/// Runs `take`. If CPython ends the thread inside `take`, the thread sleeps forever instead.
template <class Take>
auto take_or_sleep(Take take) noexcept {
  try {
    return take();
  } catch (const ::abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace

GilReleased::~GilReleased() {
  take_or_sleep([this] { PyEval_RestoreThread(state_); });
}

GilHeld::GilHeld() noexcept : state_(take_or_sleep([] { return PyGILState_Ensure(); })) {}

}  // namespace memlake::bindings
