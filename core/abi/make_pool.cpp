#include "abi/make_pool.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/process.hpp"
#include "driver/library.hpp"
#include "memlake.h"

namespace memlake::abi {
namespace {

/// The emulator lies beside this library.
std::string emulator_file() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&memlake_abi_version), &here) == 0 || here.dli_fname == nullptr)
    throw Error(ErrorKind::config, "the folder of libmemlake.so cannot be found; give driver: the emulator's path");
  const std::string file = here.dli_fname;
  const std::size_t slash = file.rfind('/');
  return (slash == std::string::npos ? "" : file.substr(0, slash + 1)) + "libmemlake_emulator.so";
}

/// The devices that the configuration describes; makes them at the first request. Before the driver is initialised: an
/// emulator that has no devices then makes one of its own.
OrdinalRange emulated_devices(const Library& library, const Conf& conf) {
  static std::mutex mutex;
  static auto& made = *new std::map<std::string, OrdinalRange>;
  const std::string text = "devices=" + conf.devices + ",memory=" + conf.memory + ",backing=" + conf.backing;
  library.require_this_process();  // before the lock: a thread that does not exist in a forked child may hold it
  const std::lock_guard lock(mutex);
  auto found = made.find(text);
  if (found == made.end()) found = made.emplace(text, library.emulator().add_devices(text)).first;
  return found->second;
}

/// What is dropped while the process ends undoes nothing: the driver may be gone before us.
void notice_exit() {
  static const int registered = std::atexit([] { begin_exit(); });
  static_cast<void>(registered);
}

}  // namespace

Library& open_driver(const Conf& conf) {
  const std::string file = conf.driver == "cuda" ? "libcuda.so.1" : conf.is_emulated() ? emulator_file() : conf.driver;
  Library& library = Library::load(file);
  library.require_this_process();
  if (conf.is_emulated()) emulated_devices(library, conf);
  library.initialize();
  return library;
}

std::shared_ptr<Device> find_device(const Conf& conf, int device) {
  notice_exit();
  Library& library = open_driver(conf);
  const OrdinalRange there =
      conf.is_emulated() ? emulated_devices(library, conf) : OrdinalRange{.first = 0, .count = library.device_count()};
  if (device < 0 || device >= there.count)
    throw Error(ErrorKind::invalid_argument, "there is no device " + std::to_string(device) + "; there are " +
                                                 std::to_string(there.count) + ", counted from 0");
  return library.device(there.first + device);
}

std::shared_ptr<LivePool> make_pool(const Conf& conf, int device) {
  const auto on = find_device(conf, device);
  // A device without virtual memory management gets a policy that does without.
  const ChosenPolicy policy = conf.has_chosen_policy ? conf.policy : choose_policy(default_policy_on({on}).name);
  auto pool = LivePool::make({on}, policy.space_maker(conf.arguments), conf.limits_on(on->total_memory()));
  pool->promise_lasting_streams();  // PyTorch destroys none of its streams, and memlake.h asks it of other callers
  std::string text = policy.entry->name;
  for (const Setting& setting : policy.options->given()) text += "," + setting.key + ":" + setting.value;
  pool->set_policy_text(std::move(text));
  return pool;
}

}  // namespace memlake::abi
