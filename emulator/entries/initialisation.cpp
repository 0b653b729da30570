// cuInit, versions, error names and the table of entry points.

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

void after_fork_in_child() {
  if (phase() == Phase::initialized) phase() = Phase::forked;
}

void at_exit() { phase() = Phase::exiting; }

struct EntryPoint {
  const char* base;
  int since;
  void* function;
  void* per_thread;  ///< the variant for which stream 0 is the thread's own; the same function if there is none
};

const EntryPoint kEntryPoints[] = {
#define F(base, symbol, since, parameters, arguments) \
  {#base, since, reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&symbol)},
#define S(base, symbol, since, suffix, parameters, arguments) \
  {#base, since, reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&symbol##suffix)},
#define U(base, symbol, since) {#base, since, reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&symbol)},
#include "functions.inc"
#undef F
#undef S
#undef U
};

constexpr cuuint64_t kPerThreadDefaultStream = 2;

/// The newest version of `name` that is not newer than `version`; null and the reason if there is none.
const EntryPoint* find_entry_point(std::string_view name, int version, CUdriverProcAddressQueryResult& status) {
  const EntryPoint* best = nullptr;
  status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (const EntryPoint& entry : kEntryPoints) {
    if (name != entry.base) continue;
    if (entry.since > version) {
      if (best == nullptr) status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    } else if (best == nullptr || entry.since > best->since) {
      best = &entry;
      status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
  }
  return best;
}

CUresult proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status, const void* caller) {
  return enter(
      Call::cuGetProcAddress_v2, caller,
      [&](Session& session) {
        required(symbol, "symbol");
        void*& out = required(function, "the function pointer");
        if (flags > kPerThreadDefaultStream) invalid("flags ", flags, " are unknown");
        if (version > session.driver.version())
          invalid("version ", version, " is newer than this driver, ", session.driver.version());
        CUdriverProcAddressQueryResult found{};
        const EntryPoint* entry = find_entry_point(symbol, version, found);
        out = entry == nullptr ? nullptr : flags == kPerThreadDefaultStream ? entry->per_thread : entry->function;
        if (status != nullptr) *status = found;
      },
      Need::nothing);
}

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

MEMLAKE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return proc_address(symbol, function, version, flags, nullptr, MEMLAKE_CALLER);
}

MEMLAKE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* status) {
  return proc_address(symbol, function, version, flags, status, MEMLAKE_CALLER);
}

// These two answer always, also in a forked child and while the process exits.
MEMLAKE_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) { return tell(result_name(error), text); }
MEMLAKE_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) { return tell(result_text(error), text); }

// The per-thread variants: the same function while stream 0 means the calling thread's own.
namespace {
struct PerThreadDefault {
  PerThreadDefault() { default_is_per_thread() = true; }
  ~PerThreadDefault() { default_is_per_thread() = false; }
};
}  // namespace

#define F(base, symbol, since, parameters, arguments)
#define U(base, symbol, since)                                                                                \
  MEMLAKE_EXPORT CUresult symbol() {                                                                          \
    return enter(Call::symbol, MEMLAKE_CALLER,                                                                \
                 [](Session&) { refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator does not support " #base); }); \
  }
#define S(base, symbol, since, suffix, parameters, arguments) \
  MEMLAKE_EXPORT CUresult symbol##suffix parameters {         \
    const PerThreadDefault scope;                             \
    return symbol arguments;                                  \
  }
#include "functions.inc"
#undef F
#undef S
#undef U

}  // namespace memlake::emulator
