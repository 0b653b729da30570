#pragma once

// A value of the calling thread that can be asked for until the very end of the process.

#include <pthread.h>

#include <utility>

namespace memlake::emulator {

/// One T per thread, gone with its thread. A plain thread_local of the main thread would be gone before the destructors
/// of a program's globals run, and those call the driver. A key's destructor runs after every thread_local's, and not
/// at all for the main thread of a process that exits.
template <class T>
T& of_this_thread() {
  static thread_local T* value = nullptr;
  if (value == nullptr) {
    static const pthread_key_t key = [] {
      pthread_key_t made{};
      pthread_key_create(&made, [](void*) { delete std::exchange(value, nullptr); });
      return made;
    }();
    value = new T;
    pthread_setspecific(key, value);
  }
  return *value;
}

}  // namespace memlake::emulator
