// The table of entry points and cuGetProcAddress, the per-thread variants, and the functions that are not emulated.

#include <string_view>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

struct EntryPoint {
  Call call;
  const char* base;
  const char* symbol;
  int since;
  bool is_emulated;
  void* function;
  void* per_thread;  ///< the variant for which stream 0 is the thread's own; the same function if there is none
};

#define ENTRY(base, symbol, since, is_emulated, variant) \
  {Call::symbol,                                         \
   #base,                                                \
   #symbol,                                              \
   since,                                                \
   is_emulated,                                          \
   reinterpret_cast<void*>(&symbol),                     \
   reinterpret_cast<void*>(&variant)},
const EntryPoint kEntryPoints[] = {
#define F(base, symbol, since, parameters, arguments) ENTRY(base, symbol, since, true, symbol)
#define S(base, symbol, since, suffix, parameters, arguments) ENTRY(base, symbol, since, true, symbol##suffix)
#define U(base, symbol, since) ENTRY(base, symbol, since, false, symbol)
#define V(base, symbol, since, suffix) ENTRY(base, symbol, since, false, symbol##suffix)
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V
};

constexpr cuuint64_t kAsCompiled = 0;
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
        const bool is_per_thread =
            flags == kPerThreadDefaultStream || (flags == kAsCompiled && this_thread.default_is_per_thread);
        CUdriverProcAddressQueryResult found{};
        const EntryPoint* entry = find_entry_point(symbol, version, found);
        out = entry == nullptr ? nullptr : is_per_thread ? entry->per_thread : entry->function;
        if (status != nullptr) *status = found;
      },
      Need::nothing);
}

/// The symbol that a program can call instead of an old version; empty if no version of the function is emulated.
std::string_view emulated_version_of(const EntryPoint& old) {
  for (const EntryPoint& entry : kEntryPoints)
    if (entry.is_emulated && std::string_view(entry.base) == old.base) return entry.symbol;
  return {};
}

CUresult not_emulated(Call call, const void* caller) {
  return enter(call, caller, [&](Session& session) {
    const EntryPoint& entry = kEntryPoints[static_cast<std::size_t>(call)];
    std::string sentence = text("the emulator does not emulate ", entry.symbol);
    if (const auto other = emulated_version_of(entry); !other.empty())
      sentence += text(" (version ", entry.since, " of ", entry.base, "); it emulates ", other);
    session.driver.ledger.note_unemulated(call, session.origin, sentence);
    refuse(CUDA_ERROR_NOT_SUPPORTED, sentence);
  });
}

/// While it lives, stream 0 means the calling thread's own stream.
struct PerThreadDefault {
  PerThreadDefault() { this_thread.default_is_per_thread = true; }
  ~PerThreadDefault() { this_thread.default_is_per_thread = false; }
};

}  // namespace

MEMLAKE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return proc_address(symbol, function, version, flags, nullptr, MEMLAKE_CALLER);
}

MEMLAKE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* status) {
  return proc_address(symbol, function, version, flags, status, MEMLAKE_CALLER);
}

// NVIDIA's libraries ask here for tables of the driver's private functions, before cuInit and from any thread. The
// emulator has none. The libraries that can do without a table (NVRTC) need this answer to go on.
MEMLAKE_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  return enter(
      Call::cuGetExportTable, MEMLAKE_CALLER,
      [&](Session&) {
        required(table, "table");
        required(id, "id");
        invalid("the emulator has no tables of private functions");
      },
      Need::nothing);
}

#define F(base, symbol, since, parameters, arguments)
#define S(base, symbol, since, suffix, parameters, arguments) \
  MEMLAKE_EXPORT CUresult symbol##suffix parameters {         \
    const PerThreadDefault scope;                             \
    return symbol arguments;                                  \
  }
#define U(base, symbol, since) \
  MEMLAKE_EXPORT CUresult symbol() { return not_emulated(Call::symbol, MEMLAKE_CALLER); }
#define V(base, symbol, since, suffix) \
  U(base, symbol, since)               \
  MEMLAKE_EXPORT CUresult symbol##suffix() { return not_emulated(Call::symbol, MEMLAKE_CALLER); }
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V

}  // namespace memlake::emulator
