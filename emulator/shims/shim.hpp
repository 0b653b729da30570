#pragma once

// A shim is a library with the name of one of NVIDIA's, such as libcuda.so.1, that stands for the emulator. The
// emulator has another name, so that it does not conflict with a real driver in the same process.
//
// A program can load a shim or be linked with it. Each function of a shim jumps to the emulator's function of the same
// name, with all arguments and the return address as they are. (A filter library, DT_FILTER, would need no code, but
// glibc does not find the exception tables of a library that it loads for a filter.)

#include <dlfcn.h>

namespace {

/// The answer if the emulator lacks a function, which a test rules out: CUDA_ERROR_STUB_LIBRARY.
int missing() { return 34; }

}  // namespace

#if defined(__x86_64__)
#define MEMLAKE_JUMP(name) "endbr64\n jmp *memlake_shim_" #name "(%rip)\n"
#define MEMLAKE_FUNCTION_TYPE "@function"
#elif defined(__aarch64__)
#define MEMLAKE_JUMP(name)                   \
  "bti c\n adrp x16, memlake_shim_" #name    \
  "\n"                                       \
  "ldr x16, [x16, :lo12:memlake_shim_" #name \
  "]\n"                                      \
  "br x16\n"
#define MEMLAKE_FUNCTION_TYPE "%function"
#else
#error "write the jump of a shim for this processor"
#endif

/// Defines the function `name` and the variable with its target.
#define MEMLAKE_SHIM(name)                                                          \
  extern "C" __attribute__((visibility("hidden"))) void* memlake_shim_##name;       \
  void* memlake_shim_##name = reinterpret_cast<void*>(&missing);                    \
  asm(".text\n.globl " #name "\n.type " #name ", " MEMLAKE_FUNCTION_TYPE "\n" #name \
      ":\n" MEMLAKE_JUMP(name) ".size " #name ", . - " #name "\n");

/// Finds the target of `name` in the emulator.
#define MEMLAKE_CONNECT(name) \
  if (void* target = dlsym(emulator, #name)) memlake_shim_##name = target;
