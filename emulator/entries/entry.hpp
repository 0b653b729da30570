#pragma once

// The way into the emulated driver, the same for every exported function: is the driver there, may this thread call it,
// count the call, take the lock, run the body, and turn whatever it throws into a CUresult and a sentence.

#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "driver.hpp"

#define MEMLAKE_EXPORT extern "C" __attribute__((visibility("default")))
#define MEMLAKE_CALLER __builtin_return_address(0)

namespace memlake::emulator {

/// The state in which the whole process is, readable without a lock.
enum class Phase : int {
  fresh,        ///< before cuInit
  initialized,  ///< after it
  forked,       ///< a child of a process that had initialised: every call answers 3
  exiting,      ///< the process is ending: every call answers 4
};
std::atomic<Phase>& phase();

/// What memlakeEmulatorLastError() and memlakeEmulatorLastViolation() answer to this thread.
struct LastError {
  std::string sentence;
  bool is_violation = false;
};
LastError& last_error();

/// One call while it runs.
struct Session {
  Driver& driver;
  Origin origin;
  Lock lock;
};

enum class Need { nothing, initialized };

/// The codes that must be answered before anything is looked at; CUDA_SUCCESS to go on.
CUresult check_phase(Need need);

CUresult answer(const Refusal& refusal);
CUresult answer(Driver& driver, const Origin& origin, const Violation& violation);
CUresult answer(const Origin& origin, const std::exception& error);

template <class Body>
CUresult enter(Call call, const void* caller, Body&& body, Need need = Need::initialized) noexcept {
  Origin origin{.call = name_of(call)};
  try {
    if (const CUresult early = check_phase(need); early != CUDA_SUCCESS) return early;
    Driver& driver = Driver::instance();
    origin = driver.ledger.note_call(call, caller);
    Session session{driver, origin, Lock(driver.mutex)};
    try {
      if (!last_error().sentence.empty()) last_error() = {};
      if constexpr (std::is_void_v<decltype(body(session))>) {
        body(session);
        return CUDA_SUCCESS;
      } else {
        return body(session);
      }
    } catch (const Violation& violation) {
      if (!session.lock.owns_lock()) session.lock.lock();
      return answer(driver, origin, violation);
    }
  } catch (const Refusal& refusal) {
    return answer(refusal);
  } catch (const std::exception& error) {
    return answer(origin, error);
  }
}

// Declares every exported function with the signature of the list, so that a definition that differs does not compile.
#define F(base, symbol, since, parameters, arguments) MEMLAKE_EXPORT CUresult symbol parameters;
#define S(base, symbol, since, suffix, parameters, arguments) \
  MEMLAKE_EXPORT CUresult symbol parameters;                  \
  MEMLAKE_EXPORT CUresult symbol##suffix parameters;
#define U(base, symbol, since) MEMLAKE_EXPORT CUresult symbol();
#include "functions.inc"
#undef F
#undef S
#undef U

}  // namespace memlake::emulator
