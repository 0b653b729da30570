#include "driver/device.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/process.hpp"
#include "base/undo_failure.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"

namespace memlake {

Device::Device(Library& library, int ordinal, DeviceTraits traits)
    : Device(library, library.driver(), ordinal, std::move(traits)) {}

Device::Device(Library& library, Driver& driver, int ordinal, DeviceTraits traits)
    : library_(library),
      driver_(driver),
      ordinal_(ordinal),
      traits_(std::move(traits)),
      process_generation_(process_generation()),
      features_(traits_.features != nullptr ? traits_.features : std::make_shared<FeatureTable>()) {}

Device::Device(std::shared_ptr<const Device> same, Driver& driver)
    : library_(same->library_),
      driver_(driver),
      ordinal_(same->ordinal_),
      traits_(same->traits_),
      process_generation_(same->process_generation_),
      features_(same->features_),
      same_(std::move(same)) {}

Device::~Device() {
  if (context_.load() == nullptr || !can_undo() || is_exiting()) return;
  const CUresult result = driver_.cuDevicePrimaryCtxRelease(ordinal_);
  if (result != CUDA_SUCCESS) report_undo_failure(driver_error(driver_, Call::cuDevicePrimaryCtxRelease, result));
}

CUcontext Device::context() {
  // Before the lock: a thread that does not exist in a forked child may hold it.
  library_.require_this_process();
  if (const CUcontext context = context_.load(std::memory_order_acquire)) return context;
  const std::lock_guard lock(mutex_);
  CUcontext context = context_.load(std::memory_order_relaxed);
  if (context == nullptr) {
    check(driver_, Call::cuDevicePrimaryCtxRetain, driver_.cuDevicePrimaryCtxRetain(&context, ordinal_));
    context_.store(context, std::memory_order_release);
  }
  return context;
}

std::string Device::name() const {
  std::array<char, 256> text{};
  check(driver_, Call::cuDeviceGetName, driver_.cuDeviceGetName(text.data(), static_cast<int>(text.size()), ordinal_));
  return std::string(text.data(), strnlen(text.data(), text.size()));
}

std::array<std::uint8_t, 16> Device::uuid() const {
  CUuuid uuid{};
  check(driver_, Call::cuDeviceGetUuid, driver_.cuDeviceGetUuid(&uuid, ordinal_));
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), uuid.bytes, bytes.size());
  return bytes;
}

Bytes Device::total_memory() const {
  size_t total = 0;
  check(driver_, Call::cuDeviceTotalMem, driver_.cuDeviceTotalMem(&total, ordinal_));
  return {total};
}

Bytes Device::free_memory() {
  const CurrentContext current(*this);
  size_t free = 0;
  size_t total = 0;
  check(driver_, Call::cuMemGetInfo, driver_.cuMemGetInfo(&free, &total));
  return {free};
}

Bytes Device::granularity(CUmemAllocationGranularity_flags option) const {
  auto& known = granularity_.at(static_cast<std::size_t>(option));
  if (const std::uint64_t value = known.load(std::memory_order_relaxed)) return {value};
  const CUmemAllocationProp prop = allocation_prop(false);
  size_t granularity = 0;
  check(driver_, Call::cuMemGetAllocationGranularity,
        driver_.cuMemGetAllocationGranularity(&granularity, &prop, option));
  known.store(granularity, std::memory_order_relaxed);
  return {granularity};
}

int Device::attribute(int attribute) const {
  int value = 0;
  check(driver_, Call::cuDeviceGetAttribute,
        driver_.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), ordinal_));
  return value;
}

bool Device::can_access(const Device& peer) const {
  if (&peer.library_ != &library_) return false;
  int can_access = 0;
  check(driver_, Call::cuDeviceCanAccessPeer, driver_.cuDeviceCanAccessPeer(&can_access, ordinal_, peer.ordinal_));
  return can_access != 0;
}

void Device::synchronize() {
  const CurrentContext current(*this);
  check(driver_, Call::cuCtxSynchronize, driver_.cuCtxSynchronize());
}

CUmemAllocationProp Device::allocation_prop(bool is_exportable) const noexcept {
  CUmemAllocationProp prop;
  // Not only the members: stale padding is a classic cause of CUDA_ERROR_INVALID_VALUE.
  std::memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = is_exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_};
  prop.allocFlags.gpuDirectRDMACapable = features_->has(Feature::rdma) ? 1 : 0;
  return prop;
}

Bytes Device::host_granularity(CUmemLocation location) const {
  CUmemAllocationProp prop = allocation_prop(false);
  prop.location = location;
  size_t granularity = 0;
  check(driver_, Call::cuMemGetAllocationGranularity,
        driver_.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return {granularity};
}

Bytes total_memory(const Devices& devices) {
  Bytes sum{0};
  for (const auto& device : devices) sum = sum + device->total_memory();
  return sum;
}

Bytes common_granularity(const Devices& devices) {
  std::uint64_t granule = 1;
  for (const auto& device : devices)
    granule = std::lcm(granule, device->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM).count);
  return {granule};
}

CurrentContext::CurrentContext(Device& device) : CurrentContext(device.driver(), device.context()) {}

CurrentContext::CurrentContext(Driver& driver, CUcontext context) : driver_(driver) {
  check(driver_, Call::cuCtxPushCurrent, driver_.cuCtxPushCurrent(context));
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  const CUresult result = driver_.cuCtxPopCurrent(&popped);
  if (result != CUDA_SUCCESS) report_undo_failure(driver_error(driver_, Call::cuCtxPopCurrent, result));
}

}  // namespace memlake
