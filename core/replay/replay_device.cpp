#include "replay/replay_device.hpp"

#include <string>

#include "base/undo_failure.hpp"

namespace memlake {

ReplayDevice::ReplayDevice(Library& library, Bytes memory)
    : library_(library),
      counting_(library.failing()),
      ordinals_(library.emulator().add_devices("backing=none,streams=manual,name=replay,memory=" +
                                               std::to_string(memory.count))) {
  library_.initialize();
  // A replay answers for a device about which nothing is known, so no aliasing is proven.
  device_ = std::make_shared<Device>(library_, counting_, ordinals_.first, DeviceTraits{.aliasing = Aliasing::none});
  device_->context();
  counting_.reset();
}

ReplayDevice::~ReplayDevice() {
  device_->set_open(false);
  try {
    library_.emulator().close_devices(ordinals_);
  } catch (const Error& error) {
    report_undo_failure(error);
  }
}

}  // namespace memlake
