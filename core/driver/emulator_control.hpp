#pragma once

// EmulatorControl: the emulator's own functions (memlake_emulator.h). On any other driver, a function that needs the
// emulator throws an Error with CUDA_ERROR_NOT_SUPPORTED.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "driver/device.hpp"
#include "driver/driver.hpp"
#include "driver/shared_object.hpp"

namespace memlake {

/// A range that emulated device work reads or writes. The layout is memlakeEmulatorRange's.
struct TouchedRange {
  std::uint64_t address;
  std::uint64_t size;
  int is_write;
};

/// Devices first .. first + count - 1.
struct OrdinalRange {
  int first;
  int count;
};

class EmulatorControl {
 public:
  explicit EmulatorControl(const SharedObject& library);

  bool is_present() const noexcept { return add_devices_ != nullptr; }

  /// Explains the calling thread's latest call, cu* or memlakeEmulator*.
  Explanation explain() const;

  /// Throws Error(config) with the emulator's sentence if `config` is invalid.
  OrdinalRange add_devices(const std::string& config) const;
  void close_devices(OrdinalRange devices) const;
  /// The configuration of an emulated device; the defaults for a device of a real driver.
  DeviceTraits traits_of(int ordinal) const;

  /// The emulator's ledger, as JSON.
  std::string ledger() const;
  void reset_ledger() const;

  void launch(CUstream stream, const std::string& name, std::span<const TouchedRange> ranges) const;
  std::uint64_t hold(CUstream stream) const;
  void open_gate(std::uint64_t gate) const;
  std::size_t step(CUstream stream, std::size_t count) const;
  std::size_t pending(CUstream stream) const;

 private:
  /// Calls the function and throws if it fails; a missing function counts as not supported.
  template <class... Parameters, class... Arguments>
  void ask(const char* name, int (*function)(Parameters...), Arguments... arguments) const;

  int (*add_devices_)(const char*, int*, int*);
  int (*close_devices_)(int, int);
  int (*is_host_backed_)(int, int*);
  const char* (*last_error_)();
  const char* (*last_violation_)();
  int (*ledger_)(char*, std::size_t*);
  int (*reset_ledger_)();
  int (*launch_)(void*, const char*, const TouchedRange*, std::size_t);
  int (*hold_)(void*, std::uint64_t*);
  int (*open_)(std::uint64_t);
  int (*step_)(void*, std::size_t, std::size_t*);
  int (*pending_)(void*, std::size_t*);
};

}  // namespace memlake
