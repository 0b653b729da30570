// Questions about devices that programs of CUDA's first versions ask, and their place on the bus.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// CUdevprop of cuda.h.
struct Properties {
  int max_threads_per_block;
  int max_threads_dim[3];
  int max_grid_size[3];
  int shared_memory_per_block;
  int total_constant_memory;
  int simd_width;
  int memory_pitch;
  int registers_per_block;
  int clock_rate;
  int texture_alignment;
};
static_assert(sizeof(Properties) == 56);

constexpr int kMajor = 75, kMinor = 76;  // attributes
constexpr int kLastAffinity = 0;         // CU_EXEC_AFFINITY_TYPE_SM_COUNT

}  // namespace

MEMLAKE_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return enter(Call::cuDeviceComputeCapability, MEMLAKE_CALLER, [&](Session& session) {
    required(major, "major");
    required(minor, "minor");
    session.driver.devices.find(device);
    *major = Device::common_attribute(kMajor);
    *minor = Device::common_attribute(kMinor);
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetProperties(void* properties, CUdevice device) {
  return enter(Call::cuDeviceGetProperties, MEMLAKE_CALLER, [&](Session& session) {
    Properties& out = required(static_cast<Properties*>(properties), "the properties");
    session.driver.devices.find(device);
    const auto get = Device::common_attribute;
    out = {.max_threads_per_block = get(1),
           .max_threads_dim = {get(2), get(3), get(4)},
           .max_grid_size = {get(5), get(6), get(7)},
           .shared_memory_per_block = get(8),
           .total_constant_memory = get(9),
           .simd_width = get(10),
           .memory_pitch = get(11),
           .registers_per_block = get(12),
           .clock_rate = get(13),
           .texture_alignment = get(14)};
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* bus_id) {
  return enter(Call::cuDeviceGetByPCIBusId, MEMLAKE_CALLER, [&](Session& session) {
    required(device, "device");
    required(bus_id, "the bus id");
    const auto place = parse_pci_place(bus_id);
    for (const auto& candidate : session.driver.devices.all())
      if (place && candidate->is_open && pci_place(candidate->number) == *place) {
        *device = candidate->ordinal;
        return;
      }
    if (!place) invalid("'", bus_id, "' is not a bus id such as 0000:01:00.0");
    refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device at ", bus_id);
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetExecAffinitySupport(int* is_supported, int type, CUdevice device) {
  return enter(Call::cuDeviceGetExecAffinitySupport, MEMLAKE_CALLER, [&](Session& session) {
    required(is_supported, "the answer");
    session.driver.devices.find(device);
    if (type < 0 || type > kLastAffinity) invalid("execution affinity ", type, " is unknown");
    *is_supported = 0;
  });
}

}  // namespace memlake::emulator
