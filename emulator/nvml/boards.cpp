// NVML: what an administrator sets and asks about a board. The emulator has no fans, clocks, sensors and meters:
// functions that would measure return NOT_SUPPORTED.

#include <unistd.h>

#include <chrono>
#include <cstring>

#include "nvml/entry.hpp"

namespace memlake::emulator::nvml {

namespace {

// The link of the data-centre GPUs of the Ampere generation, whose attributes the devices have.
constexpr unsigned kLinkGeneration = 4;
constexpr unsigned kLinkWidth = 16;
constexpr unsigned kUnsignedInt = 1;  // the type of a field's value
enum Field : unsigned { kNvLinkCount = 91, kPcieReplays = 94 };

/// Settings of a board need the rights of an administrator, as on a real device.
template <class Set>
Result set_board(DeviceHandle device, Set&& set) {
  return with_gpu(device, [&](Driver& driver, const Gpu& gpu) {
    if (geteuid() != 0) return NO_PERMISSION;
    return set(driver.devices.board(gpu.number));
  });
}

Result put_constant(DeviceHandle device, unsigned* out, unsigned value) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(out, value); });
}

/// The fields that an emulated device has: it has no links to others, and its bus repeats nothing.
bool has_field(unsigned id) { return id == kNvLinkCount || id == kPcieReplays; }

}  // namespace

MEMLAKE_EXPORT Result nvmlDeviceGetComputeMode(DeviceHandle device, unsigned* mode) {
  return with_gpu(
      device, [&](Driver& driver, const Gpu& gpu) { return put(mode, driver.devices.board(gpu.number).compute_mode); });
}

MEMLAKE_EXPORT Result nvmlDeviceSetComputeMode(DeviceHandle device, unsigned mode) {
  if (mode != Board::shared && mode != Board::prohibited && mode != Board::exclusive_process)
    return mode == 1 ? NOT_SUPPORTED : INVALID_ARGUMENT;  // 1: for one thread, which CUDA has had until version 7
  return set_board(device, [&](Board& board) {
    board.compute_mode = mode;
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPersistenceMode(DeviceHandle device, unsigned* mode) {
  return with_gpu(device, [&](Driver& driver, const Gpu& gpu) {
    return put(mode, driver.devices.board(gpu.number).is_persistent ? 1U : 0U);
  });
}

MEMLAKE_EXPORT Result nvmlDeviceSetPersistenceMode(DeviceHandle device, unsigned mode) {
  if (mode > 1) return INVALID_ARGUMENT;
  return set_board(device, [&](Board& board) {
    board.is_persistent = mode == 1;
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetNumFans(DeviceHandle device, unsigned* count) {
  return put_constant(device, count, 0);
}

MEMLAKE_EXPORT Result nvmlDeviceGetVirtualizationMode(DeviceHandle device, unsigned* mode) {
  return put_constant(device, mode, 0);  // none: the device is no part of another one
}

MEMLAKE_EXPORT Result nvmlDeviceGetCurrPcieLinkGeneration(DeviceHandle device, unsigned* generation) {
  return put_constant(device, generation, kLinkGeneration);
}

MEMLAKE_EXPORT Result nvmlDeviceGetMaxPcieLinkGeneration(DeviceHandle device, unsigned* generation) {
  return put_constant(device, generation, kLinkGeneration);
}

MEMLAKE_EXPORT Result nvmlDeviceGetGpuMaxPcieLinkGeneration(DeviceHandle device, unsigned* generation) {
  return put_constant(device, generation, kLinkGeneration);
}

MEMLAKE_EXPORT Result nvmlDeviceGetCurrPcieLinkWidth(DeviceHandle device, unsigned* width) {
  return put_constant(device, width, kLinkWidth);
}

MEMLAKE_EXPORT Result nvmlDeviceGetMaxPcieLinkWidth(DeviceHandle device, unsigned* width) {
  return put_constant(device, width, kLinkWidth);
}

MEMLAKE_EXPORT Result nvmlDeviceGetPcieReplayCounter(DeviceHandle device, unsigned* count) {
  return put_constant(device, count, 0);
}

MEMLAKE_EXPORT Result nvmlDeviceGetCapabilities(DeviceHandle device, Capabilities* capabilities) {
  return with_gpu(device, [&](Driver&, const Gpu&) {
    if (capabilities == nullptr) return INVALID_ARGUMENT;
    if (capabilities->version != kCapabilitiesV1) return ARGUMENT_VERSION_MISMATCH;
    capabilities->mask = 0;  // no extended GPU memory
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPdi(DeviceHandle device, Pdi* pdi) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) {
    if (pdi == nullptr) return INVALID_ARGUMENT;
    if (pdi->version != kPdiV1) return ARGUMENT_VERSION_MISMATCH;
    const cuda::CUuuid uuid = uuid_of(gpu.number);
    std::memcpy(&pdi->value, uuid.bytes + sizeof uuid.bytes - sizeof pdi->value, sizeof pdi->value);
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetGridLicensableFeatures_v4(DeviceHandle device, GridFeatures* features) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(features, GridFeatures{}); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetFieldValues(DeviceHandle device, int count, FieldValue* values) {
  return with_gpu(device, [&](Driver& driver, const Gpu&) {
    if (count < 0 || (values == nullptr && count > 0)) return INVALID_ARGUMENT;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    for (int i = 0; i < count; ++i) {
      FieldValue& field = values[i];
      field.timestamp = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
      field.latency = 0;
      field.type = kUnsignedInt;
      field.value.bytes = 0;
      field.result = has_field(field.id) ? SUCCESS : NOT_SUPPORTED;
      if (field.result != SUCCESS)
        driver.ledger.explain("nvmlDeviceGetFieldValues", field.result, text("no field ", field.id));
    }
    return SUCCESS;
  });
}

}  // namespace memlake::emulator::nvml
