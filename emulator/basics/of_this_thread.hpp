#pragma once

// A thread-local value that stays valid until the end of the process.

#include <pthread.h>

#include <utility>

namespace memlake::emulator {

/// One T per thread, destroyed with the thread. A plain thread_local of the main thread is destroyed before the
/// destructors of a program's globals run, and those may call the driver. The destructor of a pthread key runs after
/// the destructors of all thread_locals, and does not run for the main thread of a process that exits.
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
