#include "driver/library.hpp"

#include <limits>
#include <utility>

#include "base/process.hpp"
#include "driver/result.hpp"
#include "driver/stream.hpp"

namespace memlake {

Library& Library::load(const std::string& file) {
  process_generation();  // forks count from here on
  SharedObject object(file);
  static std::mutex mutex;
  // Not destroyed at exit: owners may outlive any static.
  static auto& libraries = *new std::map<const void*, std::unique_ptr<Library>>;
  const std::lock_guard lock(mutex);
  auto& library = libraries[object.identity()];
  if (library == nullptr) {
    try {
      library.reset(new Library(std::move(object)));
    } catch (...) {
      std::erase_if(libraries, [](const auto& entry) { return entry.second == nullptr; });
      throw;
    }
  }
  return *library;
}

Library::Library(SharedObject library) : loaded_(std::move(library)), failing_(loaded_), counting_(failing_) {}

void Library::initialize() {
  check(counting_, Call::cuInit, counting_.cuInit(0));
  initialized_in_.store(process_generation());
}

int Library::version() {
  int version = 0;
  check(counting_, Call::cuDriverGetVersion, counting_.cuDriverGetVersion(&version));
  return version;
}

int Library::device_count() {
  int count = 0;
  check(counting_, Call::cuDeviceGetCount, counting_.cuDeviceGetCount(&count));
  return count;
}

std::shared_ptr<Device> Library::device(int ordinal) {
  require_this_process();
  const std::lock_guard lock(mutex_);
  auto& known = devices_[ordinal];
  if (auto device = known.lock(); device != nullptr && device->can_undo()) return device;
  CUdevice handle = 0;
  check(counting_, Call::cuDeviceGet, counting_.cuDeviceGet(&handle, ordinal));
  DeviceTraits traits = emulator().traits_of(ordinal);
  auto& features = features_[ordinal];
  if (features == nullptr) features = std::make_shared<FeatureTable>();
  traits.features = features;
  auto device = std::make_shared<Device>(*this, ordinal, std::move(traits));
  known = device;
  return device;
}

std::optional<int> Library::current_device() {
  require_this_process();
  // First a question whose answer may be "none": an error costs more.
  CUcontext context = nullptr;
  CUdevice device = 0;
  check(loaded_, Call::cuCtxGetCurrent, loaded_.cuCtxGetCurrent(&context));
  if (context == nullptr) return std::nullopt;
  const CUresult result = loaded_.cuCtxGetDevice(&device);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return std::nullopt;
  check(loaded_, Call::cuCtxGetDevice, result);
  return device;
}

std::optional<int> Library::stream_device(CUstream created) {
  require_this_process();
  const StreamHome home = stream_home(counting_, created);
  return home.context == nullptr ? std::nullopt : std::optional(home.device);
}

void Library::close_devices(OrdinalRange devices) {
  if (devices.count < 1 || devices.first > std::numeric_limits<int>::max() - devices.count) {
    throw driver_error("memlakeEmulatorCloseDevices", CUDA_ERROR_INVALID_DEVICE,
                       {"no devices have these ordinals", false});
  }
  // First the flag: another thread may drop an owner while the emulator removes what it owns.
  set_open(devices, false);
  try {
    emulator().close_devices(devices);
  } catch (...) {
    set_open(devices, true);
    throw;
  }
  const std::lock_guard lock(mutex_);
  features_.erase(features_.lower_bound(devices.first), features_.lower_bound(devices.first + devices.count));
}

void Library::set_open(OrdinalRange devices, bool is_open) {
  const std::lock_guard lock(mutex_);
  const auto last = devices_.lower_bound(devices.first + devices.count);
  for (auto it = devices_.lower_bound(devices.first); it != last; ++it) {
    if (const auto device = it->second.lock()) device->set_open(is_open);
  }
}

void Library::require_this_process() const {
  const unsigned initialized_in = initialized_in_.load(std::memory_order_relaxed);
  if (initialized_in == 0 || initialized_in == process_generation()) return;
  throw driver_error(name_of(Call::cuInit), CUDA_ERROR_NOT_INITIALIZED,
                     {"this process was forked after the driver was initialised", false});
}

}  // namespace memlake
