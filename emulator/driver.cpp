#include "driver.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace memlake::emulator {

namespace {

bool g_reports_at_exit = false;
std::string& ledger_file() {
  static auto* path = new std::string;  // read while the process exits: never destroyed
  return *path;
}

pid_t g_reporting_process = 0;

void write_ledger_at_exit() {
  if (getpid() != g_reporting_process) return;  // a forked child: the ledger is its parent's
  Driver& driver = Driver::instance();
  const Lock lock(driver.mutex);
  if (g_reports_at_exit) std::fputs(driver.ledger_text().c_str(), stderr);
  if (!ledger_file().empty() && !(std::ofstream(ledger_file()) << driver.ledger_json() << '\n'))
    std::fprintf(stderr, "memlake emulator: cannot write the ledger to %s\n", ledger_file().c_str());
}

}  // namespace

Driver& Driver::instance() {
  static auto* driver = new Driver;
  return *driver;
}

void Driver::add_devices_of_environment() {
  if (has_read_environment_) return;
  if (const char* config = std::getenv("MEMLAKE_EMULATOR"); config != nullptr && *config != '\0') {
    const GroupConfig group = parse_config(config);  // a bad one throws here, each time it is tried
    has_read_environment_ = true;
    add_devices(group);
  }
  has_read_environment_ = true;
}

void Driver::initialize() {
  try {
    add_devices_of_environment();
  } catch (const Refusal& refusal) {
    std::fprintf(stderr, "memlake emulator: MEMLAKE_EMULATOR: %s\n", refusal.sentence.c_str());
    refuse(CUDA_ERROR_NO_DEVICE, "MEMLAKE_EMULATOR: ", refusal.sentence);
  }
  if (devices.count() == 0) add_devices(parse_config(""));
  is_initialized_ = true;
}

int Driver::add_devices(const GroupConfig& group) {
  add_devices_of_environment();
  if (group.driver_version && *group.driver_version != version_) {
    for (const auto& device : devices.all())
      if (device->is_open)
        invalid("emulator configuration: driver=", *group.driver_version,
                ", but this process's one emulated driver is ", version_, " and has open devices");
    version_ = *group.driver_version;
  }
  const int first = devices.add(group);
  static bool is_registered = false;
  g_reports_at_exit = g_reports_at_exit || group.report_at_exit;
  if (!group.ledger_file.empty()) ledger_file() = group.ledger_file;
  if (!is_registered && (g_reports_at_exit || !ledger_file().empty())) {
    is_registered = true;
    g_reporting_process = getpid();
    std::atexit(write_ledger_at_exit);
  }
  return first;
}

void Driver::destroy_context(Lock& lock, Context& context) {
  streams.drop_context(lock, context);
  plain.drop_context(context);
  Device& device = *context.device;
  if (context.is_primary) {
    device.primary_context = 0;
    device.primary_retains = 0;
  }
  contexts.erase(context);
}

void Driver::close_device(Lock& lock, Device& device) {
  std::vector<std::uint64_t> of_device;
  for (const auto& [handle, context] : contexts.all())
    if (context.device == &device) of_device.push_back(handle);
  for (const std::uint64_t handle : of_device)
    if (Context* context = contexts.find(handle)) destroy_context(lock, *context);
  // Work of other devices that runs on this memory now must end first; what is only queued fails when its turn comes.
  const auto is_used_now = [&] {
    for (const auto& [address, mapping] : mappings.all())
      if (mapping.chunk().device == &device && in_flight.user_of(address, mapping.size, true) != nullptr) return true;
    return false;
  };
  changed.wait(lock, [&] { return !is_used_now(); });
  mappings.drop_device(device);
  chunks.drop_device(device);
  devices.close(device);
}

}  // namespace memlake::emulator
