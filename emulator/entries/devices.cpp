// Devices: their properties and their peers.

#include <cstdio>
#include <cstring>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

void copy_text(char* out, int length, const std::string& value, const char* name) {
  required(out, name);
  if (length <= 0) invalid("the length of ", name, " is ", length);
  std::snprintf(out, static_cast<std::size_t>(length), "%s", value.c_str());
}

constexpr int kComputeMode = 20;  // the attribute that an administrator sets (NVML)

enum P2pAttribute { kPerformanceRank = 1, kAccessSupported = 2, kNativeAtomic = 3, kArrayAccess = 4 };

}  // namespace

MEMLAKE_EXPORT CUresult cuDeviceGetCount(int* count) {
  return enter(Call::cuDeviceGetCount, MEMLAKE_CALLER,
               [&](Session& session) { required(count, "count") = session.driver.devices.count(); });
}

MEMLAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return enter(Call::cuDeviceGet, MEMLAKE_CALLER, [&](Session& session) {
    required(device, "device");
    *device = session.driver.devices.find(ordinal).ordinal;
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return enter(Call::cuDeviceGetName, MEMLAKE_CALLER, [&](Session& session) {
    required(name, "name");
    copy_text(name, length, session.driver.devices.find(device).config.name, "name");
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

MEMLAKE_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return enter(Call::cuDeviceGetUuid_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(uuid, "uuid");
    *uuid = session.driver.devices.find(device).uuid();
  });
}

MEMLAKE_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return enter(Call::cuDeviceTotalMem_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(bytes, "bytes");
    *bytes = session.driver.devices.find(device).config.memory;
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return enter(Call::cuDeviceGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(value, "value");
    const Device& asked = session.driver.devices.find(device);
    const auto found = asked.attribute(attribute, session.driver.version());
    if (!found) invalid("device attribute ", +attribute, " is unknown");
    const unsigned mode = session.driver.devices.board(asked.number).compute_mode;
    *value = attribute == kComputeMode ? static_cast<int>(mode) : *found;
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetPCIBusId(char* out, int length, CUdevice device) {
  return enter(Call::cuDeviceGetPCIBusId, MEMLAKE_CALLER, [&](Session& session) {
    required(out, "the bus id");
    const PciPlace place = pci_place(session.driver.devices.find(device).number);
    char bus_id[32];
    std::snprintf(bus_id, sizeof bus_id, "%04X:%02X:00.0", place.domain, place.bus);
    copy_text(out, length, bus_id, "the bus id");
  });
}

MEMLAKE_EXPORT CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice device, CUdevice peer) {
  return enter(Call::cuDeviceCanAccessPeer, MEMLAKE_CALLER, [&](Session& session) {
    required(can_access, "can_access");
    auto& devices = session.driver.devices;
    *can_access = devices.find(device).can_access(devices.find(peer).ordinal) ? 1 : 0;
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice source, CUdevice destination) {
  return enter(Call::cuDeviceGetP2PAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(value, "value");
    const Device& from = session.driver.devices.find(source);
    const Device& to = session.driver.devices.find(destination);
    if (&from == &to) refuse(CUDA_ERROR_INVALID_DEVICE, "source and destination are the same device ", source);
    if (attribute < kPerformanceRank || attribute > kArrayAccess) invalid("peer attribute ", attribute, " is unknown");
    const bool is_connected = from.can_access(to.ordinal);
    *value = attribute != kPerformanceRank && is_connected ? 1 : 0;
  });
}

}  // namespace memlake::emulator
