#include "process/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace memlake::emulator {

namespace {

const char* name_of(ProcessState state) {
  constexpr const char* kNames[] = {"running", "locked", "checkpointed"};
  return kNames[static_cast<int>(state)];
}

Device& device_of(Devices& devices, const CUuuid& uuid) {
  for (const auto& device : devices.all()) {
    const CUuuid own = device->uuid();
    if (device->is_open && std::memcmp(own.bytes, uuid.bytes, sizeof own.bytes) == 0) return *device;
  }
  invalid("a UUID is that of no device that the process sees");
}

bool is_same_kind(const Device& one, const Device& other) {
  return one.config.name == other.config.name && one.config.memory == other.config.memory &&
         one.config.granularity == other.config.granularity && one.config.backing == other.config.backing;
}

}  // namespace

void Checkpoint::check(ProcessState wanted, const char* action) const {
  if (is_locking_ || state_ != wanted)
    refuse(CUDA_ERROR_ILLEGAL_STATE, "only a ", name_of(wanted), " process can be ", action, "; this one is ",
           is_locking_ ? "being locked" : name_of(state_));
}

void Checkpoint::close(Lock& lock, Streams& streams, const InFlight& in_flight, std::condition_variable& changed,
                       std::optional<std::chrono::milliseconds> time) {
  check(ProcessState::running, "locked");
  const auto start = std::chrono::steady_clock::now();
  const auto is_quiet = [&] { return calls_ == 0 && in_flight.is_empty(); };
  is_locking_ = true;
  while (true) {
    streams.run_manual(lock);
    if (is_quiet()) break;
    if (!time) {
      changed.wait(lock);
    } else if (changed.wait_until(lock, start + *time) == std::cv_status::timeout && !is_quiet()) {
      is_locking_ = false;
      opened_.notify_all();
      refuse(CUDA_ERROR_NOT_READY, "after ", time->count(), " ms calls or work of streams had not ended; the process ",
             "is running");
    }
  }
  is_locking_ = false;
  state_ = ProcessState::locked;
}

void Checkpoint::save() {
  check(ProcessState::locked, "checkpointed");
  state_ = ProcessState::checkpointed;
}

void Checkpoint::restore(Devices& devices, std::span<const CUcheckpointGpuPair> pairs) {
  check(ProcessState::checkpointed, "restored");
  std::map<Device*, int> numbers;  // which each device gets
  for (const CUcheckpointGpuPair& pair : pairs) {
    Device& from = device_of(devices, pair.oldUuid);
    const Device& to = device_of(devices, pair.newUuid);
    if (!is_same_kind(from, to)) invalid("device ", from.ordinal, " cannot be restored on a device of another kind");
    if (!numbers.emplace(&from, to.number).second) invalid("device ", from.ordinal, " is in two pairs");
  }
  for (const auto& device : devices.all())
    if (!pairs.empty() && device->is_open && !numbers.contains(device.get()))
      invalid("device ", device->ordinal, " is in no pair; the pairs must name every device");
  std::vector<int> taken;
  for (const auto& [device, number] : numbers) taken.push_back(number);
  std::ranges::sort(taken);
  if (std::ranges::adjacent_find(taken) != taken.end()) invalid("two devices would be restored on one");
  for (const auto& [device, number] : numbers) device->number = number;
  state_ = ProcessState::locked;
}

void Checkpoint::open() {
  check(ProcessState::locked, "unlocked");
  state_ = ProcessState::running;
  opened_.notify_all();
}

}  // namespace memlake::emulator
