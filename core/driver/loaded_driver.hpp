#pragma once

// LoadedDriver: the functions of a driver library, libcuda.so.1 or the emulator. It treats both alike, except that only
// the emulator explains its errors.

#include "driver/driver.hpp"
#include "driver/emulator_control.hpp"
#include "driver/shared_object.hpp"

namespace memlake {

class LoadedDriver final : public Driver {
 public:
  /// Throws Error(config) that names every required function the library does not export. Does not call cuInit.
  explicit LoadedDriver(SharedObject library);

#define F(name, symbol, need, parameters, arguments) CUresult name parameters override;
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override;

  const SharedObject& library() const noexcept { return library_; }
  const EmulatorControl& emulator() const noexcept { return emulator_; }

 private:
  bool has(Call call) const noexcept;

  SharedObject library_;
  EmulatorControl emulator_;
#define F(name, symbol, need, parameters, arguments) CUresult(*name##_) parameters = nullptr;
#include "driver/functions.inc"
#undef F
};

}  // namespace memlake
