#include "driver/emulator_control.hpp"

#include "driver/result.hpp"

namespace memlake {
namespace {

template <class Function>
void resolve(const SharedObject& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(name));
}

}  // namespace

EmulatorControl::EmulatorControl(const SharedObject& library) {
  resolve(library, "memlakeEmulatorAddDevices", add_devices_);
  resolve(library, "memlakeEmulatorCloseDevices", close_devices_);
  resolve(library, "memlakeEmulatorIsHostBacked", is_host_backed_);
  resolve(library, "memlakeEmulatorLastError", last_error_);
  resolve(library, "memlakeEmulatorLastViolation", last_violation_);
  resolve(library, "memlakeEmulatorLedger", ledger_);
  resolve(library, "memlakeEmulatorResetLedger", reset_ledger_);
  resolve(library, "memlakeEmulatorLaunch", launch_);
  resolve(library, "memlakeEmulatorHold", hold_);
  resolve(library, "memlakeEmulatorOpen", open_);
  resolve(library, "memlakeEmulatorStep", step_);
  resolve(library, "memlakeEmulatorPending", pending_);
}

Explanation EmulatorControl::explain() const {
  if (last_violation_ != nullptr) {
    const std::string violation = last_violation_();
    if (!violation.empty()) return {violation, true};
  }
  return {last_error_ != nullptr ? last_error_() : "", false};
}

template <class... Parameters, class... Arguments>
void EmulatorControl::ask(const char* name, int (*function)(Parameters...), Arguments... arguments) const {
  if (function == nullptr) {
    throw driver_error(name, CUDA_ERROR_NOT_SUPPORTED, {"this driver is not the emulator", false});
  }
  const auto result = static_cast<CUresult>(function(arguments...));
  if (result != CUDA_SUCCESS) throw driver_error(name, result, explain());
}

OrdinalRange EmulatorControl::add_devices(const std::string& config) const {
  OrdinalRange added{};
  try {
    ask("memlakeEmulatorAddDevices", add_devices_, config.c_str(), &added.first, &added.count);
  } catch (const Error& error) {
    if (error.answer()->code != CUDA_ERROR_INVALID_VALUE) throw;
    throw Error(ErrorKind::config, error.answer()->detail);
  }
  return added;
}

void EmulatorControl::close_devices(OrdinalRange devices) const {
  ask("memlakeEmulatorCloseDevices", close_devices_, devices.first, devices.count);
}

DeviceTraits EmulatorControl::traits_of(int ordinal) const {
  if (!is_present()) return {};
  int is_host = 0;
  ask("memlakeEmulatorIsHostBacked", is_host_backed_, ordinal, &is_host);
  return {.is_host_backed = is_host != 0};
}

std::string EmulatorControl::ledger() const {
  std::size_t size = 0;
  ask("memlakeEmulatorLedger", ledger_, static_cast<char*>(nullptr), &size);
  // It may grow between the question and the answer.
  for (;;) {
    std::string text(size, '\0');
    const std::size_t offered = size;
    if (ledger_(text.data(), &size) == CUDA_SUCCESS) {
      text.resize(size - 1);
      return text;
    }
    if (size <= offered) throw driver_error("memlakeEmulatorLedger", CUDA_ERROR_INVALID_VALUE, explain());
  }
}

void EmulatorControl::reset_ledger() const { ask("memlakeEmulatorResetLedger", reset_ledger_); }

void EmulatorControl::launch(CUstream stream, const std::string& name, std::span<const TouchedRange> ranges) const {
  ask("memlakeEmulatorLaunch", launch_, stream, name.c_str(), ranges.data(), ranges.size());
}

std::uint64_t EmulatorControl::hold(CUstream stream) const {
  std::uint64_t gate = 0;
  ask("memlakeEmulatorHold", hold_, stream, &gate);
  return gate;
}

void EmulatorControl::open_gate(std::uint64_t gate) const { ask("memlakeEmulatorOpen", open_, gate); }

std::size_t EmulatorControl::step(CUstream stream, std::size_t count) const {
  std::size_t ran = 0;
  ask("memlakeEmulatorStep", step_, stream, count, &ran);
  return ran;
}

std::size_t EmulatorControl::pending(CUstream stream) const {
  std::size_t pending = 0;
  ask("memlakeEmulatorPending", pending_, stream, &pending);
  return pending;
}

}  // namespace memlake
