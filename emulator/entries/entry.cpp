#include "entries/entry.hpp"

#include <utility>

#include "basics/of_this_thread.hpp"

namespace memlake::emulator {

std::atomic<Phase>& phase() {
  static std::atomic<Phase> value = Phase::fresh;
  return value;
}

LastError& last_error() { return of_this_thread<LastError>(); }

void set_last_error(std::string sentence, bool is_violation) {
  last_error() = {std::move(sentence), is_violation};
  this_thread.has_error = true;
}

void forget_last_error() {
  last_error() = {};
  this_thread.has_error = false;
}

CUresult check_phase(Need need) {
  const auto refuse_with = [](CUresult code, const char* sentence) {
    set_last_error(sentence);
    return code;
  };
  switch (phase().load(std::memory_order_relaxed)) {
    case Phase::fresh:
      if (need == Need::initialized) return refuse_with(CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called");
      break;
    case Phase::initialized:
      break;
    case Phase::forked:
      // No lock may be taken here: another thread of the parent may have held it.
      return refuse_with(CUDA_ERROR_NOT_INITIALIZED, "this process was forked after cuInit; start it with 'spawn'");
    case Phase::exiting:
      return refuse_with(CUDA_ERROR_DEINITIALIZED, "the process is exiting");
  }
  if (this_thread.is_in_host_function)
    return refuse_with(CUDA_ERROR_NOT_PERMITTED, "a host function must not call the driver");
  return CUDA_SUCCESS;
}

CUresult answer(const Origin& origin, const Refusal& refusal) {
  Driver::instance().ledger.explain(origin.call, refusal.code, refusal.sentence);
  set_last_error(refusal.sentence);
  return refusal.code;
}

CUresult answer(Driver& driver, const Origin& origin, const Violation& violation) {
  driver.ledger.note_violation(origin, violation.code, violation.sentence);
  set_last_error(violation.sentence, true);
  return violation.code;
}

CUresult answer(const Origin& origin, const std::exception& error) {
  set_last_error(text(origin.call, ": the emulator itself failed: ", error.what()));
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

}  // namespace memlake::emulator
