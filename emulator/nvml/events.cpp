// NVML: sets of events. One kind of event occurs: work that failed has lost a context, which real devices report as an
// Xid error.

#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "nvml/entry.hpp"

namespace memlake::emulator::nvml {

namespace {

constexpr unsigned long long kXidError = 8;      // nvmlEventTypeXidCriticalError
constexpr unsigned long long kMemoryFault = 31;  // the Xid of an access without rights
constexpr std::uintptr_t kSetBase = 0x0D1'0000'0000'0000;

struct Registered {
  std::map<int, std::size_t> devices = {};  ///< by number: how many faults of the process it has passed
  bool is_freed = false;
};

/// All sets, by handle. Guarded by the driver's lock.
std::map<std::uintptr_t, std::shared_ptr<Registered>>& sets() {
  static auto* all = new std::map<std::uintptr_t, std::shared_ptr<Registered>>;
  return *all;
}

std::shared_ptr<Registered> find_set(EventSet handle) {
  const auto found = sets().find(reinterpret_cast<std::uintptr_t>(handle));
  return found == sets().end() ? nullptr : found->second;
}

/// Takes the next event of the set; false if there is none.
bool take(const Driver& driver, Registered& set, EventData& data) {
  for (auto& [number, passed] : set.devices)
    while (passed < driver.faults.size())
      if (driver.faults[passed++] == number) {
        data = {.device = handle_of({number, nullptr, nullptr}),
                .type = kXidError,
                .data = kMemoryFault,
                .gpu_instance = kNoInstance,
                .compute_instance = kNoInstance};
        return true;
      }
  return false;
}

Result wait(EventSet handle, EventData* data, unsigned milliseconds) {
  try {
    Driver& driver = Driver::instance();
    Lock lock(driver.mutex);
    if (initialisations() == 0) return UNINITIALIZED;
    const std::shared_ptr<Registered> set = find_set(handle);
    if (set == nullptr || data == nullptr) return INVALID_ARGUMENT;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    bool has_event = false;
    driver.changed.wait_until(lock, end, [&] {
      has_event = take(driver, *set, *data);
      return has_event || set->is_freed;
    });
    return has_event ? SUCCESS : set->is_freed ? INVALID_ARGUMENT : TIMEOUT;
  } catch (const std::exception&) {
    return UNKNOWN;
  }
}

}  // namespace

MEMLAKE_EXPORT Result nvmlDeviceGetSupportedEventTypes(DeviceHandle device, unsigned long long* types) {
  return with_gpu(device, [&](Driver&, const Gpu&) { return put(types, kXidError); });
}

MEMLAKE_EXPORT Result nvmlEventSetCreate(EventSet* set) {
  return enter([&](Driver&) {
    if (set == nullptr) return INVALID_ARGUMENT;
    static std::uintptr_t next = 1;
    const std::uintptr_t handle = kSetBase + 16 * next++;
    sets().emplace(handle, std::make_shared<Registered>());
    return put(set, reinterpret_cast<EventSet>(handle));
  });
}

MEMLAKE_EXPORT Result nvmlDeviceRegisterEvents(DeviceHandle device, unsigned long long types, EventSet set) {
  return with_gpu(device, [&](Driver& driver, const Gpu& gpu) {
    const std::shared_ptr<Registered> found = find_set(set);
    if (found == nullptr) return INVALID_ARGUMENT;
    if ((types & ~kXidError) != 0) return NOT_SUPPORTED;
    if (types != 0) found->devices.emplace(gpu.number, driver.faults.size());
    return SUCCESS;
  });
}

MEMLAKE_EXPORT Result nvmlEventSetWait_v2(EventSet set, EventData* data, unsigned milliseconds) {
  return wait(set, data, milliseconds);
}

MEMLAKE_EXPORT Result nvmlEventSetWait(EventSet set, EventData* data, unsigned milliseconds) {
  return wait(set, data, milliseconds);
}

MEMLAKE_EXPORT Result nvmlEventSetFree(EventSet set) {
  return enter([&](Driver& driver) {
    const std::shared_ptr<Registered> found = find_set(set);
    if (found == nullptr) return INVALID_ARGUMENT;
    found->is_freed = true;
    sets().erase(reinterpret_cast<std::uintptr_t>(set));
    driver.changed.notify_all();
    return SUCCESS;
  });
}

}  // namespace memlake::emulator::nvml
