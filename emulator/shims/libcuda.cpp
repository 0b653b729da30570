#include "shims/shim.hpp"

#define F(base, symbol, since, parameters, arguments) MEMLAKE_SHIM(symbol)
#define S(base, symbol, since, suffix, parameters, arguments) MEMLAKE_SHIM(symbol) MEMLAKE_SHIM(symbol##suffix)
#define U(base, symbol, since) MEMLAKE_SHIM(symbol)
#define V(base, symbol, since, suffix) MEMLAKE_SHIM(symbol) MEMLAKE_SHIM(symbol##suffix)
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V

__attribute__((constructor)) static void connect() {
  void* emulator = dlopen(MEMLAKE_EMULATOR_NAME, RTLD_LAZY | RTLD_NOLOAD);
#define F(base, symbol, since, parameters, arguments) MEMLAKE_CONNECT(symbol)
#define S(base, symbol, since, suffix, parameters, arguments) MEMLAKE_CONNECT(symbol) MEMLAKE_CONNECT(symbol##suffix)
#define U(base, symbol, since) MEMLAKE_CONNECT(symbol)
#define V(base, symbol, since, suffix) MEMLAKE_CONNECT(symbol) MEMLAKE_CONNECT(symbol##suffix)
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V
}
