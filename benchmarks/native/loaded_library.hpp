#pragma once

// What the programs that measure from outside share: functions found by name in a library, as a program without headers
// finds them, and clocks.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

/// A library that was loaded from a path. A failure ends the program.
struct LoadedLibrary {
  explicit LoadedLibrary(const char* path) : file(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (file == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
  }

  template <typename Function>
  Function* find(const char* name) const {
    void* symbol = dlsym(file, name);
    if (symbol == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
    return reinterpret_cast<Function*>(symbol);
  }

  void* file;
};

inline void expect_success(int result, const char* call) {
  if (result != 0) {
    std::fprintf(stderr, "%s answered %d\n", call, result);
    std::exit(2);
  }
}

inline double nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline double thread_nanoseconds() { return nanoseconds(CLOCK_THREAD_CPUTIME_ID); }
