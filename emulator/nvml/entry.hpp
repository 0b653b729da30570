#pragma once

// The common entry of NVML's functions. NVML sees the devices of this process as the system's devices: also the hidden
// ones of CUDA_VISIBLE_DEVICES, and before cuInit.

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "entries/entry.hpp"
#include "nvml/abi.hpp"
#include "process/driver.hpp"

namespace memlake::emulator::nvml {

/// A device as NVML sees it.
struct Gpu {
  int number;
  const DeviceConfig* config;
  const Device* device;  ///< null if the program does not use it: hidden (CUDA_VISIBLE_DEVICES), before
                         ///< cuInit, or while the process is checkpointed

  [[nodiscard]] std::uint64_t used() const { return device == nullptr ? 0 : device->used; }
};

/// How often nvmlInit was called without nvmlShutdown. Guarded by the driver's lock.
int& initialisations();

/// All devices, by number, without the closed ones: the order of NVML's indices.
std::vector<Gpu> gpus(Driver& driver);

/// Null for a handle of no device.
DeviceHandle handle_of(const Gpu& gpu);

/// Runs `body(driver)` under the driver's lock, after nvmlInit. A refusal of the driver is DRIVER_NOT_LOADED.
template <class Body>
Result enter(Body&& body, bool needs_init = true) noexcept {
  try {
    Driver& driver = Driver::instance();
    const Lock lock(driver.mutex);
    if (needs_init && initialisations() == 0) return UNINITIALIZED;
    return body(driver);
  } catch (const Refusal& refusal) {
    set_last_error(refusal.sentence);
    return DRIVER_NOT_LOADED;
  } catch (const std::exception&) {
    return UNKNOWN;
  }
}

/// Runs `body(driver, gpu)` of a function of one device as enter() does. INVALID_ARGUMENT for a handle of no device.
template <class Body>
Result with_gpu(DeviceHandle handle, Body&& body) noexcept {
  return enter([&](Driver& driver) {
    for (const Gpu& gpu : gpus(driver))
      if (handle != nullptr && handle_of(gpu) == handle) return body(driver, gpu);
    return INVALID_ARGUMENT;
  });
}

template <class T>
Result put(T* out, T value) {
  if (out == nullptr) return INVALID_ARGUMENT;
  *out = value;
  return SUCCESS;
}

/// Copies text with its NUL into a buffer, or says that the buffer is too small.
inline Result put_text(char* out, unsigned length, const std::string& text) {
  if (out == nullptr) return INVALID_ARGUMENT;
  if (length <= text.size()) return INSUFFICIENT_SIZE;
  std::snprintf(out, length, "%s", text.c_str());
  return SUCCESS;
}

}  // namespace memlake::emulator::nvml
