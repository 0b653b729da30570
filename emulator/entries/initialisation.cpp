// cuInit, the version and error names.

#include <pthread.h>

#include <cstdlib>

#include "entries/entry.hpp"
#include "process/checkpoint_service.hpp"

namespace memlake::emulator {

namespace {

void after_fork_in_child() {
  if (phase() == Phase::initialized) phase() = Phase::forked;
  forget_restore_thread();
}

void at_exit() { phase() = Phase::exiting; }

const char* result_name(int code) {
  switch (code) {
#define R(code, name, text, meaning) \
  case code:                         \
    return #name;
#include "driver/results.inc"
#undef R
    default:
      return nullptr;
  }
}

const char* result_text(int code) {
  switch (code) {
#define R(code, name, text, meaning) \
  case code:                         \
    return text;
#include "driver/results.inc"
#undef R
    default:
      return nullptr;
  }
}

CUresult tell(const char* found, const char** out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = found;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

MEMLAKE_EXPORT CUresult cuInit(unsigned flags) {
  return enter(
      Call::cuInit, MEMLAKE_CALLER,
      [&](Session& session) {
        if (flags != 0) invalid("flags must be 0");
        if (session.driver.is_initialized()) return;
        session.driver.initialize();
        pthread_atfork(nullptr, nullptr, after_fork_in_child);
        // Not for a program that adds its devices itself, as tests do: Python warns of a fork beside a second thread.
        if (session.driver.first_devices() != nullptr) start_restore_thread();
        std::atexit(at_exit);
        phase() = Phase::initialized;
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuDriverGetVersion(int* version) {
  return enter(
      Call::cuDriverGetVersion, MEMLAKE_CALLER,
      [&](Session& session) { required(version, "version") = session.driver.version(); }, Need::nothing);
}

// These two answer always, also in a forked child and while the process exits.
MEMLAKE_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) { return tell(result_name(error), text); }
MEMLAKE_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) { return tell(result_text(error), text); }

}  // namespace memlake::emulator
