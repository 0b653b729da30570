#include "driver/result.hpp"

#include <utility>

namespace memlake {
namespace {

constexpr std::string_view address_reserve = name_of(Call::cuMemAddressReserve);

const char* result_name(CUresult result) noexcept {
  switch (result) {
#define R(code, name, text, meaning) \
  case name:                         \
    return #name;
#include "driver/results.inc"
#undef R
  }
  return nullptr;
}

const char* usual_meaning(CUresult result) noexcept {
  switch (result) {
#define R(code, name, text, meaning) \
  case name:                         \
    return meaning;
#include "driver/results.inc"
#undef R
  }
  return "not a result that memlake knows";
}

const char* meaning_of(ErrorKind kind, CUresult result) noexcept {
  switch (kind) {
    case ErrorKind::address_exhaustion:
      return "no addresses are left, or the size or the alignment cannot be reserved; this is not about memory";
    case ErrorKind::contract_violation:
      return "the call breaks the driver's contract: a real driver would crash or corrupt memory; nothing was changed";
    default:
      return usual_meaning(result);
  }
}

}  // namespace

bool is_known(CUresult result) noexcept { return result_name(result) != nullptr; }

ErrorKind error_kind(std::string_view call, CUresult result, bool is_violation) noexcept {
  if (is_violation) return ErrorKind::contract_violation;
  switch (static_cast<int>(result)) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return call == address_reserve ? ErrorKind::address_exhaustion : ErrorKind::out_of_memory;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return ErrorKind::driver_gone;
    case CUDA_ERROR_NOT_READY:
      return ErrorKind::not_ready;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:  // one misuse, three codes: A7.6
    case CUDA_ERROR_INVALID_HANDLE:
      return ErrorKind::invalid_call;
    // Failed device work. Beside 700 and 719 the rarer ones of cuda.h: launch timeout, device assert, stack,
    // instruction, misaligned address, address space, program counter.
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case 702:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case CUDA_ERROR_LAUNCH_FAILED:
      return ErrorKind::sticky;
    default:
      return ErrorKind::other;
  }
}

Error driver_error(const char* call, CUresult result, Explanation explanation) {
  const ErrorKind kind = error_kind(call, result, explanation.is_violation);
  const char* known = result_name(result);
  const std::string name = known != nullptr ? known : "CUresult " + std::to_string(static_cast<int>(result));
  return Error(kind, DriverAnswer{call, static_cast<int>(result), name, meaning_of(kind, result),
                                  std::move(explanation.detail)});
}

Error driver_error(const Driver& driver, Call call, CUresult result) {
  return driver_error(name_of(call), result, driver.explain(call, result));
}

}  // namespace memlake
