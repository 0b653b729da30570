#pragma once

// A value of the calling thread that can be asked for until the very end of the process.

#include <unistd.h>

#include <utility>

#include "origin.hpp"

namespace memlake::emulator {

/// One T per thread, gone with its thread. A plain thread_local of the main thread would be gone before the destructors
/// of a program's globals run, and those call the driver: the main thread's value is kept.
template <class T>
T& of_this_thread() {
  static thread_local T* value = nullptr;
  struct Owner {
    ~Owner() {
      if (this_thread_id() != getpid()) delete std::exchange(value, nullptr);
    }
  };
  if (value == nullptr) {
    static thread_local const Owner owner;
    static_cast<void>(&owner);  // a thread_local is made, and then destroyed, only where it is used
    value = new T;
  }
  return *value;
}

}  // namespace memlake::emulator
