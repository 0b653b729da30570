#pragma once

// The part of NVML's C ABI that the emulator answers: results and struct layouts, from the public documentation.

#include <cstdint>

namespace memlake::emulator::nvml {

enum Result : int {
#define R(code, name, text) name = code,
#include "nvml/results.inc"
#undef R
};

using DeviceHandle = struct nvmlDevice_st*;

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | (2U << 24);

/// Version 2 ends before `bus_id`, and has four reserved numbers in its place.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};

struct PciInfoV2 {
  char bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  unsigned reserved[4];
};

struct PciInfoExt {
  unsigned version;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  unsigned base_class;
  unsigned sub_class;
  char bus_id[32];
};
inline constexpr unsigned kPciInfoExt = sizeof(PciInfoExt) | (1U << 24);

struct ProcessV1 {
  unsigned pid;
  unsigned long long used_memory;
};

/// The gpu_instance and compute_instance of a device that is not partitioned.
inline constexpr unsigned kNoInstance = 0xFFFFFFFF;

/// Of versions 2 and 3.
struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct DriverBranch {
  unsigned version;
  char branch[80];
};
inline constexpr unsigned kDriverBranchV1 = sizeof(DriverBranch) | (1U << 24);

struct Uuid {
  unsigned version;
  unsigned type;  ///< 1: text, 2: bytes
  union {
    char text[41];
    unsigned char bytes[16];
  };
};

struct Capabilities {
  unsigned version;
  unsigned mask;
};
inline constexpr unsigned kCapabilitiesV1 = sizeof(Capabilities) | (1U << 24);

/// The identifier of a device that is unique among all devices.
struct Pdi {
  unsigned version;
  unsigned long long value;
};
inline constexpr unsigned kPdiV1 = sizeof(Pdi) | (1U << 24);

/// The beginning of nvmlGridLicensableFeatures_t; the features follow.
struct GridFeatures {
  int is_supported;
  unsigned count;
};

struct FieldValue {
  unsigned id;
  unsigned scope;
  long long timestamp;
  long long latency;
  unsigned type;  ///< of the value; 1: unsigned int
  int result;     ///< of this field
  union {
    unsigned number;
    unsigned long long bytes;
  } value;
};

using EventSet = struct nvmlEventSet_st*;

struct EventData {
  DeviceHandle device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

static_assert(sizeof(Capabilities) == 8 && sizeof(Pdi) == 16 && sizeof(FieldValue) == 40 && sizeof(EventData) == 32);
static_assert(sizeof(MemoryV2) == 40 && sizeof(PciInfo) == 68 && sizeof(PciInfoV2) == 52 && sizeof(ProcessV1) == 16);
static_assert(sizeof(Process) == 24 && sizeof(DriverBranch) == 84 && sizeof(Uuid) == 52);

}  // namespace memlake::emulator::nvml
