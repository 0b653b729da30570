#include "shims/shim.hpp"

#define N(name) MEMLAKE_SHIM(name)
#include "nvml/functions.inc"
#include "nvml/unsupported.inc"
#undef N

__attribute__((constructor)) static void connect() {
  void* emulator = dlopen(MEMLAKE_EMULATOR_NAME, RTLD_LAZY | RTLD_NOLOAD);
#define N(name) MEMLAKE_CONNECT(name)
#include "nvml/functions.inc"
#include "nvml/unsupported.inc"
#undef N
}
