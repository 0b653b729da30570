// NVML: where a device is in the machine. An emulated device is as near to each processor and each memory node of the
// machine as to any other, and only the whole system is common to two devices.

#include <dirent.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nvml/entry.hpp"

namespace memlake::emulator::nvml {

namespace {

enum Topology : int { kInternal = 0, kSystem = 50 };
constexpr std::size_t kBits = 8 * sizeof(unsigned long);

/// The numbers of what the kernel lists in a folder as PREFIXn, such as cpu0, cpu1.
template <class Take>
void each_numbered(const char* folder, const char* prefix, Take&& take) {
  DIR* listed = opendir(folder);
  if (listed == nullptr) return;
  while (const dirent* entry = readdir(listed)) {
    const std::size_t length = std::strlen(prefix);
    char* end = nullptr;
    if (std::strncmp(entry->d_name, prefix, length) != 0 || entry->d_name[length] == '\0') continue;
    const unsigned long number = std::strtoul(entry->d_name + length, &end, 10);
    if (*end == '\0') take(number);
  }
  closedir(listed);
}

Result put_numbered(DeviceHandle device, unsigned size, unsigned long* set, const char* folder, const char* prefix) {
  return with_gpu(device, [&](Driver&, const Gpu&) {
    if (set == nullptr || size == 0) return INVALID_ARGUMENT;
    std::fill_n(set, size, 0UL);
    each_numbered(folder, prefix, [&](unsigned long number) {
      if (number / kBits < size) set[number / kBits] |= 1UL << number % kBits;
    });
    return SUCCESS;
  });
}

/// Writes handles as far as there is room, and how many there are.
template <class Selects>
Result put_handles(Driver& driver, unsigned* count, DeviceHandle* handles, Selects selects) {
  if (count == nullptr) return INVALID_ARGUMENT;
  const unsigned room = handles == nullptr ? 0 : *count;
  unsigned found = 0;
  for (const Gpu& gpu : gpus(driver)) {
    if (!selects(gpu)) continue;
    if (found < room) handles[found] = handle_of(gpu);
    ++found;
  }
  *count = handles == nullptr ? found : std::min(found, room);
  return SUCCESS;
}

}  // namespace

MEMLAKE_EXPORT Result nvmlDeviceGetCpuAffinity(DeviceHandle device, unsigned size, unsigned long* set) {
  return put_numbered(device, size, set, "/sys/devices/system/cpu", "cpu");
}

MEMLAKE_EXPORT Result nvmlDeviceGetCpuAffinityWithinScope(DeviceHandle device, unsigned size, unsigned long* set,
                                                          unsigned) {
  return nvmlDeviceGetCpuAffinity(device, size, set);
}

MEMLAKE_EXPORT Result nvmlDeviceGetMemoryAffinity(DeviceHandle device, unsigned size, unsigned long* set, unsigned) {
  return put_numbered(device, size, set, "/sys/devices/system/node", "node");
}

MEMLAKE_EXPORT Result nvmlSystemGetTopologyGpuSet(unsigned, unsigned* count, DeviceHandle* handles) {
  return enter([&](Driver& driver) { return put_handles(driver, count, handles, [](const Gpu&) { return true; }); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetTopologyCommonAncestor(DeviceHandle one, DeviceHandle other, int* level) {
  return with_gpu(one, [&](Driver& driver, const Gpu&) {
    const auto all = gpus(driver);
    if (std::ranges::none_of(all, [&](const Gpu& gpu) { return handle_of(gpu) == other; })) return INVALID_ARGUMENT;
    return put(level, static_cast<int>(one == other ? kInternal : kSystem));
  });
}

MEMLAKE_EXPORT Result nvmlDeviceGetTopologyNearestGpus(DeviceHandle device, int level, unsigned* count,
                                                       DeviceHandle* handles) {
  return with_gpu(device, [&](Driver& driver, const Gpu& gpu) {
    return put_handles(driver, count, handles,
                       [&](const Gpu& other) { return level == kSystem && other.number != gpu.number; });
  });
}

// No display is connected to an emulated device.
MEMLAKE_EXPORT Result nvmlDeviceGetDisplayMode(DeviceHandle device, unsigned* mode) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(mode, 0U); });
}

MEMLAKE_EXPORT Result nvmlDeviceGetDisplayActive(DeviceHandle device, unsigned* mode) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(mode, 0U); });
}

}  // namespace memlake::emulator::nvml
