#include "driver.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace memlake::emulator {

namespace {

bool g_reports_at_exit = false;
std::string& ledger_file() {
  static auto* path = new std::string;  // never destroyed, because it is read at exit
  return *path;
}

pid_t g_reporting_process = 0;

void write_ledger_at_exit() {
  if (getpid() != g_reporting_process) return;  // a forked child: the ledger is its parent's
  Driver& driver = Driver::instance();
  Lock lock(driver.mutex);
  if (g_reports_at_exit) std::fputs(driver.ledger_text(lock).c_str(), stderr);
  if (!ledger_file().empty() && !(std::ofstream(ledger_file()) << driver.ledger_json(lock) << '\n'))
    std::fprintf(stderr, "memlake emulator: cannot write the ledger to %s\n", ledger_file().c_str());
}

}  // namespace

Driver& Driver::instance() {
  static auto* driver = [] {
    auto* made = new Driver;
    // Nobody is inside while the process forks: a child of a process that had not called cuInit may go on with it.
    pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                   [] { instance().mutex.unlock(); });
    return made;
  }();
  return *driver;
}

void Driver::add_devices_of_environment() {
  if (has_read_environment_) return;
  if (const char* config = std::getenv("MEMLAKE_EMULATOR"); config != nullptr && *config != '\0') {
    add_group(parse_config(config));  // a bad one throws here, each time it is tried
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
  return add_group(group);
}

int Driver::add_group(const GroupConfig& group) {
  if (group.driver_version && *group.driver_version != version_) {
    for (const auto& device : devices.all())
      if (device->is_open)
        invalid("emulator configuration: driver=", *group.driver_version,
                ", but this process's one emulated driver is ", version_, " and has open devices");
  }
  const int first = devices.add(group);
  version_ = group.driver_version.value_or(version_);
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
  // First the program has it no more, then its work ends: meanwhile other threads call in.
  context.is_ending = true;
  if (context.is_primary) context.device->primary_context = 0;
  streams.drop_context(lock, context);
  // Work of other contexts that runs on its memory now must end first; what is only queued fails when its turn comes.
  const auto is_its = [&](const auto& allocation) { return allocation.context == context.handle; };
  changed.wait(lock, [&] { return !is_running_on(plain.all(), is_its) && !is_running_on(plain.all_host(), is_its); });
  plain.drop_context(context);
  Device& device = *context.device;
  contexts.erase(context);
  if (device.live_contexts == 0) drop_pools(lock, device);
  changed.notify_all();
}

void Driver::drop_pools(Lock& lock, Device& device) {
  changed.wait(lock, [&] { return !pools.is_in_use(device); });
  pools.drop_device(device);
}

template <class Ranges, class Selects>
bool Driver::is_running_on(const Ranges& ranges, Selects selects) const {
  return std::ranges::any_of(ranges, [&](const auto& entry) {
    const auto& range = entry.second;
    return selects(range) && in_flight.user_of(range.address, range.size, true) != nullptr;
  });
}

void Driver::close_device(Lock& lock, Device& device) {
  devices.close(device);
  std::vector<std::uint64_t> ending;
  for (const auto& [handle, context] : contexts.all())
    if (context.device == &device && !context.is_ending) ending.push_back(handle);
  for (const std::uint64_t handle : ending) contexts.find(handle)->is_ending = true;
  for (const std::uint64_t handle : ending) destroy_context(lock, *contexts.find(handle));
  changed.wait(lock, [&] {  // for contexts that another thread is ending, and for work as above
    return device.live_contexts == 0 &&
           !is_running_on(mappings.all(), [&](const Mapping& mapping) { return mapping.chunk().device == &device; });
  });
  drop_pools(lock, device);
  mappings.drop_device(device);
  chunks.drop_device(device);
  device.used = 0;
}

}  // namespace memlake::emulator
