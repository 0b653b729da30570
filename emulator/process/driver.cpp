#include "process/driver.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "devices/visible_devices.hpp"

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

void Driver::read_environment() {
  if (has_read_environment_) return;
  if (const char* config = std::getenv("MEMLAKE_EMULATOR"); config != nullptr && *config != '\0')
    first_ = parse_config(config);
  has_read_environment_ = true;
  if (first_ && first_->explains) ledger.explain_refusals();  // also NVML's, which may come before cuInit
}

int Driver::version() const {
  if (has_first_) return version_;
  if (has_read_environment_) return first_ ? first_->driver_version.value_or(version_) : version_;
  const char* config = std::getenv("MEMLAKE_EMULATOR");
  try {
    return config == nullptr ? version_ : parse_config(config).driver_version.value_or(version_);
  } catch (const Refusal&) {
    return version_;  // cuInit refuses it
  }
}

const GroupConfig* Driver::first_devices() {
  try {
    read_environment();
  } catch (const Refusal& refusal) {
    std::fprintf(stderr, "memlake emulator: MEMLAKE_EMULATOR: %s\n", refusal.sentence.c_str());
    refuse(CUDA_ERROR_NO_DEVICE, "MEMLAKE_EMULATOR: ", refusal.sentence);
  }
  if (!first_ && devices.next_number() == 0) first_ = parse_config("");
  return first_ ? &*first_ : nullptr;
}

void Driver::add_devices_of_environment() {
  read_environment();
  if (!first_ || has_first_) return;
  add_group(*first_, true);
  has_first_ = true;
}

void Driver::initialize() {
  first_devices();
  add_devices_of_environment();
  if (devices.count() == 0)
    refuse(CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES hides every device (there are ", first_->devices, ")");
  is_initialized_ = true;
}

bool Driver::was_closed(int number) const {
  return std::ranges::any_of(devices.all(),
                             [&](const auto& device) { return device->number == number && !device->is_open; });
}

int Driver::add_devices(const GroupConfig& group) {
  add_devices_of_environment();
  return add_group(group);
}

int Driver::add_group(const GroupConfig& group, bool is_first) {
  const bool has_open = std::ranges::any_of(devices.all(), [](const auto& device) { return device->is_open; });
  if (group.driver_version && *group.driver_version != version_ && has_open)
    invalid("emulator configuration: driver=", *group.driver_version, ", but this process's one emulated driver is ",
            version_, " and has open devices");
  const char* list = is_first ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
  const int first = list == nullptr ? devices.add(group) : devices.add(group, visible_devices(list, group.devices));
  version_ = group.driver_version.value_or(has_open ? version_ : kNewestDriver);
  static bool is_registered = false;
  if (group.explains) ledger.explain_refusals();
  g_reports_at_exit = g_reports_at_exit || group.report_at_exit;
  if (!group.ledger_file.empty()) ledger_file() = group.ledger_file;
  if (!is_registered && (g_reports_at_exit || !ledger_file().empty())) {
    is_registered = true;
    g_reporting_process = getpid();
    std::atexit(write_ledger_at_exit);
  }
  return first;
}

Context& Driver::create_context(Device& device, bool is_primary, unsigned flags) {
  if (devices.board(device.number).compute_mode == Board::prohibited)
    refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "the compute mode of device ", device.ordinal, " prohibits contexts");
  return contexts.create(device, is_primary, flags);
}

std::uint64_t Driver::primary_context(Device& device) {
  if (device.primary_context == 0) device.primary_context = create_context(device, true, device.primary_flags).handle;
  return device.primary_context;
}

void Driver::destroy_context(Lock& lock, Context& context) {
  // First the program has it no more, then its work ends: meanwhile other threads call in.
  context.is_ending = true;
  if (context.is_primary) context.device->primary_context = 0;
  for (const auto& [handle, stream] : streams.all())
    if (stream->context == context.handle) captures.forget(*stream);
  events.drop_context(context);
  streams.drop_context(lock, context);
  // Work of other contexts that runs on its memory now must end first; what is only queued fails when its turn comes.
  const auto is_its = [&](const auto& allocation) { return allocation.context == context.handle; };
  changed.wait(lock, [&] { return !is_running_on(plain.all(), is_its) && !is_running_on(plain.all_host(), is_its); });
  arrays.drop_context(context);
  libraries.drop_context(context);
  modules.drop_context(context);
  plain.drop_context(context);
  Device& device = *context.device;
  contexts.erase(context);
  if (device.live_contexts == 0) drop_pools(lock, device);
  changed.notify_all();
}

void Driver::release_primary(Lock& lock, Device& device) {
  if (--device.primary_retains > 0) return;
  if (Context* primary = contexts.find(device.primary_context)) destroy_context(lock, *primary);  // not after a reset
}

void Driver::destroy_green(Lock& lock, GreenContext& green) {
  green.is_ending = true;
  for (const auto& [handle, stream] : streams.all())
    if (stream->view == green.view) captures.forget(*stream);
  streams.drop_green(lock, green.view);
  Device& device = *green.device;
  contexts.erase_green(green);
  if (device.primary_retains > 0) release_primary(lock, device);  // not after the device was closed
}

void Driver::wait_for_users(Lock& lock, const Module& module) {
  const std::uint64_t context = module.context;
  const std::vector<ModuleGlobal> globals = module.globals;
  const std::shared_ptr<const Image> image = module.image;  // another thread may unload the module meanwhile
  streams.synchronize_device(lock, *module.device);
  for (const ModuleGlobal& global : globals)
    while (const Work* user = in_flight.user_of(global.address, global.image->size))
      streams.wait(lock, CompletionRef(user->completion));
  contexts.check_alive(context);
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
  device.managed.shrink_to(0);
}

}  // namespace memlake::emulator
