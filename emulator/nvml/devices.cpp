// NVML: devices, their memory and the processes that use it.

#include <unistd.h>

#include <cstring>

#include "nvml/entry.hpp"

namespace memlake::emulator::nvml {

namespace {

constexpr std::uintptr_t kHandleBase = 0x0D0'0000'0000'0000;
constexpr unsigned kNvidia = 0x10DE;        // the vendor in a PCI device id
constexpr unsigned kDisplayController = 3;  // the classes of data-centre GPUs on the bus
constexpr unsigned k3dController = 2;
constexpr unsigned kAmpere = 7;                          // of nvmlDeviceGetArchitecture
constexpr int kMajor = 75, kMinor = 76, kBusWidth = 37;  // attributes of cuDeviceGetAttribute
enum P2pStatus : int { kP2pOk = 0, kP2pNotSupported = 5 };

/// "00000000:01:00.0" as NVML writes it; with four digits of the domain in old versions.
std::string bus_id(int number, bool is_legacy) {
  const PciPlace place = pci_place(number);
  char text[32];
  std::snprintf(text, sizeof text, is_legacy ? "%04X:%02X:00.0" : "%08X:%02X:00.0", place.domain, place.bus);
  return text;
}

int attribute(int id) { return Device::common_attribute(id); }

template <class Matches>
Result find(DeviceHandle* out, Matches matches) {
  return enter([&](Driver& driver) {
    if (out == nullptr) return INVALID_ARGUMENT;
    for (const Gpu& gpu : gpus(driver))
      if (matches(gpu)) return put(out, handle_of(gpu));
    return NOT_FOUND;
  });
}

template <class Info>
void put_place(Info& info, int number) {
  const PciPlace place = pci_place(number);
  info.domain = place.domain;
  info.bus = place.bus;
  info.device = 0;
  info.device_id = kNvidia;
  info.subsystem_id = kNvidia;
}

/// The processes on a device: this one, if it has a context there.
template <class Entry>
Result processes(DeviceHandle handle, unsigned* count, Entry* entries, const Entry& without_memory) {
  return with_gpu(handle, [&](Driver&, const Gpu& gpu) {
    if (count == nullptr) return INVALID_ARGUMENT;
    const bool is_here = gpu.device != nullptr && gpu.device->live_contexts > 0;
    const unsigned room = std::exchange(*count, is_here ? 1 : 0);
    if (!is_here) return SUCCESS;
    if (room < 1) return INSUFFICIENT_SIZE;
    if (entries == nullptr) return INVALID_ARGUMENT;
    entries[0] = without_memory;
    entries[0].pid = static_cast<unsigned>(getpid());
    entries[0].used_memory = gpu.used();
    return SUCCESS;
  });
}

Result no_processes(DeviceHandle handle, unsigned* count) {
  return with_gpu(handle, [&](Driver&, const Gpu&) { return put(count, 0U); });
}

Result compute_processes(DeviceHandle handle, unsigned* count, Process* entries) {
  return processes(handle, count, entries,
                   Process{.pid = 0, .used_memory = 0, .gpu_instance = kNoInstance, .compute_instance = kNoInstance});
}

}  // namespace

std::vector<Gpu> gpus(Driver& driver) {
  std::vector<Gpu> found;
  const bool is_released = driver.checkpoint.has_released_devices();
  const auto used = [&](const Device* device) { return is_released ? nullptr : device; };
  const GroupConfig* first = driver.first_devices();
  const int first_count = first == nullptr ? 0 : first->devices;
  for (int number = 0; number < first_count; ++number)
    if (!driver.was_closed(number)) found.push_back({number, &first->device, used(driver.devices.numbered(number))});
  for (const auto& device : driver.devices.all())
    if (device->is_open && device->number >= first_count)
      found.push_back({device->number, &device->config, used(device.get())});
  return found;
}

DeviceHandle handle_of(const Gpu& gpu) {
  return reinterpret_cast<DeviceHandle>(kHandleBase + 16 * (static_cast<std::uintptr_t>(gpu.number) + 1));
}

MEMLAKE_EXPORT Result nvmlDeviceGetCount_v2(unsigned* count) {
  return enter([&](Driver& driver) { return put(count, static_cast<unsigned>(gpus(driver).size())); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* device) {
  return enter([&](Driver& driver) {
    const auto all = gpus(driver);
    return index < all.size() ? put(device, handle_of(all[index])) : INVALID_ARGUMENT;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByIndex(unsigned index, DeviceHandle* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByUUID(const char* uuid, DeviceHandle* device) {
  if (uuid == nullptr) return INVALID_ARGUMENT;
  // As NVML does, it also takes the text without its beginning "GPU-".
  return find(device, [&](const Gpu& gpu) {
    const std::string text = uuid_text(gpu.number);
    return text == uuid || text.substr(4) == uuid;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByUUIDV(const Uuid* uuid, DeviceHandle* device) {
  if (uuid == nullptr) return INVALID_ARGUMENT;
  if (uuid->type == 1)
    return nvmlDeviceGetHandleByUUID(std::string(uuid->text, strnlen(uuid->text, sizeof uuid->text)).c_str(), device);
  if (uuid->type != 2) return INVALID_ARGUMENT;
  return find(device, [&](const Gpu& gpu) {
    return std::memcmp(uuid_of(gpu.number).bytes, uuid->bytes, sizeof uuid->bytes) == 0;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByPciBusId_v2(const char* text, DeviceHandle* device) {
  if (text == nullptr) return INVALID_ARGUMENT;
  const auto place = parse_pci_place(text);
  if (!place) return INVALID_ARGUMENT;
  return find(device, [&](const Gpu& gpu) { return pci_place(gpu.number) == *place; });
}

MEMLAKE_EXPORT Result nvmlDeviceGetHandleByPciBusId(const char* text, DeviceHandle* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

MEMLAKE_EXPORT Result nvmlDeviceGetIndex(DeviceHandle device, unsigned* index) {
  return with_gpu(device, [&](Driver& driver, const Gpu& gpu) {
    unsigned place = 0;
    for (const Gpu& other : gpus(driver))
      if (other.number < gpu.number) ++place;
    return put(index, place);
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetMinorNumber(DeviceHandle device, unsigned* minor) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) { return put(minor, static_cast<unsigned>(gpu.number)); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetName(DeviceHandle device, char* name, unsigned length) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) { return put_text(name, length, gpu.config->name); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetUUID(DeviceHandle device, char* uuid, unsigned length) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) { return put_text(uuid, length, uuid_text(gpu.number)); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPciInfo_v3(DeviceHandle device, PciInfo* info) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) {
    if (info == nullptr) return INVALID_ARGUMENT;
    *info = {};
    put_place(*info, gpu.number);
    put_text(info->bus_id_legacy, sizeof info->bus_id_legacy, bus_id(gpu.number, true));
    return put_text(info->bus_id, sizeof info->bus_id, bus_id(gpu.number, false));
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPciInfoExt(DeviceHandle device, PciInfoExt* info) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) {
    if (info == nullptr) return INVALID_ARGUMENT;
    if (info->version != kPciInfoExt) return ARGUMENT_VERSION_MISMATCH;
    *info = {};
    info->version = kPciInfoExt;
    put_place(*info, gpu.number);
    info->base_class = kDisplayController;
    info->sub_class = k3dController;
    return put_text(info->bus_id, sizeof info->bus_id, bus_id(gpu.number, false));
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPciInfo_v2(DeviceHandle device, PciInfoV2* info) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) {
    if (info == nullptr) return INVALID_ARGUMENT;
    *info = {};
    put_place(*info, gpu.number);
    return put_text(info->bus_id, sizeof info->bus_id, bus_id(gpu.number, true));
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetPciInfo(DeviceHandle device, PciInfoV2* info) {
  return nvmlDeviceGetPciInfo_v2(device, info);
}

MEMLAKE_EXPORT Result nvmlDeviceGetMemoryInfo(DeviceHandle device, Memory* memory) {
  return with_gpu(device, [&](Driver&, const Gpu& gpu) {
    const unsigned long long total = gpu.config->memory, used = std::min<unsigned long long>(gpu.used(), total);
    return put(memory, Memory{.total = total, .free = total - used, .used = used});
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetMemoryInfo_v2(DeviceHandle device, MemoryV2* memory) {
  if (memory == nullptr) return INVALID_ARGUMENT;
  if (memory->version != kMemoryV2) return ARGUMENT_VERSION_MISMATCH;
  Memory plain{};
  const Result result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result == SUCCESS)
    *memory = {.version = kMemoryV2, .total = plain.total, .reserved = 0, .free = plain.free, .used = plain.used};
  return result;
}

MEMLAKE_EXPORT Result nvmlDeviceGetComputeRunningProcesses(DeviceHandle device, unsigned* count, ProcessV1* entries) {
  return processes(device, count, entries, ProcessV1{});
}

MEMLAKE_EXPORT Result nvmlDeviceGetComputeRunningProcesses_v2(DeviceHandle device, unsigned* count, Process* entries) {
  return compute_processes(device, count, entries);
}

MEMLAKE_EXPORT Result nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle device, unsigned* count, Process* entries) {
  return compute_processes(device, count, entries);
}

// No process draws on an emulated device or uses it through MPS.
#define NO_PROCESSES(name) \
  MEMLAKE_EXPORT Result name(DeviceHandle device, unsigned* count, void*) { return no_processes(device, count); }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)
#undef NO_PROCESSES

MEMLAKE_EXPORT Result nvmlDeviceGetCudaComputeCapability(DeviceHandle device, int* major, int* minor) {
  return with_gpu(device, [&](Driver&, const Gpu&) {
    if (major == nullptr || minor == nullptr) return INVALID_ARGUMENT;
    *major = attribute(kMajor);
    *minor = attribute(kMinor);
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetArchitecture(DeviceHandle device, unsigned* architecture) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(architecture, kAmpere); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetBrand(DeviceHandle device, unsigned* brand) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(brand, 0U); });  // unknown
}

MEMLAKE_EXPORT Result nvmlDeviceGetMemoryBusWidth(DeviceHandle device, unsigned* bits) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(bits, static_cast<unsigned>(attribute(kBusWidth))); });
}

MEMLAKE_EXPORT Result nvmlDeviceIsMigDeviceHandle(DeviceHandle device, unsigned* is_mig) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(is_mig, 0U); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetMaxMigDeviceCount(DeviceHandle device, unsigned* count) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(count, 0U); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetP2PStatus(DeviceHandle device, DeviceHandle peer, unsigned, int* status) {
  return with_gpu(device, [&](Driver& driver, const Gpu& from) {
    for (const Gpu& to : gpus(driver)) {
      if (handle_of(to) != peer) continue;
      const bool is_reached =
          from.device != nullptr && to.device != nullptr && from.device->can_access(to.device->ordinal);
      return put(status, static_cast<int>(is_reached ? kP2pOk : kP2pNotSupported));
    }
    return INVALID_ARGUMENT;
  });
}

}  // namespace memlake::emulator::nvml
