#pragma once

// enter(): the common entry of every exported function. It checks that the driver is usable and that this thread may
// call it, counts the call, takes the lock, runs the body, and turns an exception into a CUresult and a sentence.

#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "basics/this_thread.hpp"
#include "cuda/array_abi.hpp"
#include "cuda/checkpoint_abi.hpp"
#include "cuda/managed_abi.hpp"
#include "process/driver.hpp"

#define MEMLAKE_EXPORT extern "C" __attribute__((visibility("default")))
#define MEMLAKE_CALLER __builtin_return_address(0)

namespace memlake::emulator {

/// The state of the process, readable without a lock.
enum class Phase : int {
  fresh,        ///< before cuInit
  initialized,  ///< after it
  forked,       ///< a forked child of a process that had called cuInit: every call returns 3
  exiting,      ///< the process is ending: every call returns 4
};
std::atomic<Phase>& phase();

/// The last error of this thread, for memlakeEmulatorLastError() and memlakeEmulatorLastViolation().
struct LastError {
  std::string sentence;
  bool is_violation = false;
};
LastError& last_error();
void set_last_error(std::string sentence, bool is_violation = false);
void forget_last_error();

/// One call while it runs.
struct Session {
  Driver& driver;
  Origin origin;
  Lock lock;
};

enum class Need { nothing, initialized };

/// A call of the driver that needs cuInit: it waits while the process is locked (cuCheckpointProcessLock), and a lock
/// waits for its end.
class CountedCall {
 public:
  CountedCall(Session& session, Need need) : session_(need == Need::initialized ? &session : nullptr) {
    if (session_ != nullptr) session.driver.checkpoint.begin_call(session.lock);
  }
  ~CountedCall() {
    if (session_ == nullptr) return;
    if (!session_->lock.owns_lock()) session_->lock.lock();
    if (session_->driver.checkpoint.end_call()) session_->driver.changed.notify_all();
  }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

 private:
  Session* session_;
};

/// The result of a call that must fail before its arguments are checked; CUDA_SUCCESS to continue.
CUresult check_phase(Need need);

CUresult answer(const Origin& origin, const Refusal& refusal);
CUresult answer(Driver& driver, const Origin& origin, const Violation& violation);
CUresult answer(const Origin& origin, const std::exception& error);

/// Calls that CUDA forbids while a capture is under way, unless the thread is in relaxed mode (A9): those that allocate
/// or free in one piece, and those that wait for the device or ask it.
constexpr bool is_unsafe_during_capture(Call call) {
  switch (call) {
    case Call::cuMemAlloc_v2:
    case Call::cuMemAllocManaged:
    case Call::cuMemAllocPitch_v2:
    case Call::cuArrayCreate_v2:
    case Call::cuArray3DCreate_v2:
    case Call::cuMipmappedArrayCreate:
    case Call::cuMemFree_v2:
    case Call::cuEventQuery:
    case Call::cuEventSynchronize:
    case Call::cuStreamQuery:
    case Call::cuStreamSynchronize:
    case Call::cuCtxSynchronize:
      return true;
    default:
      return false;
  }
}

template <class Body>
CUresult enter(Call call, const void* caller, Body&& body, Need need = Need::initialized) noexcept {
  Origin origin{.call = name_of(call)};
  try {
    if (const CUresult early = check_phase(need); early != CUDA_SUCCESS) return early;
    Driver& driver = Driver::instance();
    origin = driver.ledger.note_call(call, caller);
    Session session{driver, origin, Lock(driver.mutex)};
    const CountedCall counted(session, need);
    try {
      if (this_thread.has_error) forget_last_error();
      if (is_unsafe_during_capture(call)) driver.streams.capture_rules.check_safe();
      if constexpr (std::is_void_v<decltype(body(session))>) {
        body(session);
        return CUDA_SUCCESS;
      } else {
        return body(session);
      }
    } catch (const ContextLost& lost) {
      if (!session.lock.owns_lock()) session.lock.lock();
      driver.streams.see_lost(session.lock, lost.context);
      return answer(origin, lost);
    } catch (const Violation& violation) {
      if (!session.lock.owns_lock()) session.lock.lock();
      return answer(driver, origin, violation);
    }
  } catch (const Refusal& refusal) {
    return answer(origin, refusal);
  } catch (const std::exception& error) {
    return answer(origin, error);
  }
}

/// Throws a violation if another process has the allocation open (cuIpcOpenMemHandle), unless its device allows that.
void check_not_open_elsewhere(const Driver& driver, const Allocation& allocation);

// Declares every exported function with its signature in functions.inc, so that another definition does not compile.
#define F(base, symbol, since, parameters, arguments) MEMLAKE_EXPORT CUresult symbol parameters;
#define S(base, symbol, since, suffix, parameters, arguments) \
  MEMLAKE_EXPORT CUresult symbol parameters;                  \
  MEMLAKE_EXPORT CUresult symbol##suffix parameters;
#define U(base, symbol, since) MEMLAKE_EXPORT CUresult symbol();
#define V(base, symbol, since, suffix) \
  MEMLAKE_EXPORT CUresult symbol();    \
  MEMLAKE_EXPORT CUresult symbol##suffix();
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V

}  // namespace memlake::emulator
